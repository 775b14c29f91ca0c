# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The colours of the page, light and dark, and the pairs that must have the contrast of WCAG's level AA."""

from __future__ import annotations

LIGHT = {
    "page": "#f5f6f8",
    "panel": "#ffffff",
    "line": "#d5d9e0",
    "text": "#1b2130",
    "muted": "#525b6b",
    "link": "#0b57a4",
    "focus": "#0b57a4",
    "busy": "#1f5fa8",
    "on-busy": "#ffffff",
    "idle": "#dcebdd",
    "on-idle": "#173d1d",
    "idle-line": "#4c8554",
    "unknown": "#e7e3d6",
    "on-unknown": "#4a4020",
    "unknown-line": "#857748",
    "free": "#ffffff",
    "free-line": "#868e9b",
    "bad": "#a3201d",
    "bad-back": "#fdecea",
    "warn": "#7a4a00",
    "warn-back": "#fff3dc",
    "good": "#1d6b2d",
    "good-back": "#e5f4e7",
}
DARK = {
    "page": "#12151b",
    "panel": "#1b2029",
    "line": "#39414f",
    "text": "#e8ebf1",
    "muted": "#a9b2c1",
    "link": "#8cc0f8",
    "focus": "#8cc0f8",
    "busy": "#7db4ee",
    "on-busy": "#0c1a2b",
    "idle": "#23382a",
    "on-idle": "#c4e6c9",
    "idle-line": "#6fae7a",
    "unknown": "#3a3526",
    "on-unknown": "#eadfb8",
    "unknown-line": "#a8986a",
    "free": "#1b2029",
    "free-line": "#7f899a",
    "bad": "#ffb0a9",
    "bad-back": "#43211f",
    "warn": "#f7cf86",
    "warn-back": "#3d2f14",
    "good": "#a4dcae",
    "good-back": "#1d3523",
}
TEXT, GRAPHICS = 4.5, 3.0  # ratios of level AA
PAIRS = (
    *((text, back, TEXT) for text in ("text", "muted", "link") for back in ("page", "panel")),
    *(("on-" + use, use, TEXT) for use in ("busy", "idle", "unknown")),
    *((kind, back, TEXT) for kind in ("bad", "warn", "good") for back in (kind + "-back", "panel")),
    ("busy", "panel", GRAPHICS),
    *((line, "panel", GRAPHICS) for line in ("idle-line", "unknown-line", "free-line", "focus")),
)


def css() -> str:
    """The colours as custom properties."""
    light, dark = ("".join("--%s:%s;" % (name, value) for name, value in palette.items()) for palette in (LIGHT, DARK))
    return (
        ":root{color-scheme:light dark;%s}\n@media (prefers-color-scheme:dark){:root{%s}}\n"
        "@media print{:root{color-scheme:light;%s}}\n" % (light, dark, light)
    )
