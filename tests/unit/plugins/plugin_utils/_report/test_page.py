# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page: complete without scripts, harmless whatever nodes return, without requests, and readable."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._report import (
    build,
    cluster_view,
    colours,
    data,
    files,
    page,
)
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.data import ClusterReport
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.totals import maps, totals
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._report.report_support import (
    INSTANCES,
    process,
    read,
    report,
    state,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import LOST, gpu, instance
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node, user

VOID = {"meta", "link", "input", "br", "rect"}


class Page(HTMLParser):
    """A page: its elements with attributes, and the text outside style and script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw = {"style": "", "script": ""}
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, text):
        if self._open and self._open[-1] in self.raw:
            self.raw[self._open[-1]] += text
        else:
            self._texts.append(text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def attributes(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def html(found, previous=None):
    gpus = maps(found)
    return page.render(found, gpus, totals(found, gpus), previous, "report.json")


def shown(found, previous=None):
    return Page(html(found, previous))


FLEET = report(
    read("gpu10", state(gpu(0, *INSTANCES, processes=[process(7, 2, "train")]), LOST)),
    read("gpu2", state(gpu(0, instance(2, "3g.40gb", 4, 4)))),
    read("down", {"unreachable": True, "msg": "timed out"}),
    read("none", state(nvidia={"gpus": []}), nvidia_mig_layout=None),
)


def test_the_page_shows_everything_without_scripts():
    text = shown(FLEET).text
    for each in (
        "it cannot be reached: timed out",
        "GPU_IS_LOST",
        "to match nvidia_mig_layout: create GPU instance 1g.10gb at",
        "train (PID 7)",
        "MIG-2-0",
        "No cluster configured",
        "Without the GPUs of 1 host, which are unknown.",
        "It has no GPUs",
        "Driver, toolkit and GPUs are unknown",
    ):
        assert each in text
    hidden = [attributes for _tag, attributes in shown(FLEET).elements if "hidden" in attributes]
    assert [each.get("class") or each.get("id") for each in hidden] == ["tools", "nothing"]  # controls of the script


def test_nodes_of_no_host_are_named():
    found = {"gpu1": read("gpu1")}
    nodes = [
        node("gpu1", {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "2"}),
        node("stray", {"nvidia.com/gpu": "8"}),
    ]
    fleet = build.report(found, build.cluster(found, [nodes, []], cluster_view.Settings()))
    text = shown(fleet).text
    assert "Nodes of the cluster with GPUs that are no hosts of this report: stray" in text
    assert "No problem of a host was found" in text
    gpus = maps(fleet)
    resources = {row["resource"]: row["advertised"] for row in totals(fleet, gpus)["resources"]}
    assert resources == {"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1}


def test_an_unread_host_shows_what_the_inventory_names():
    fleet = report(read("down", {"unreachable": True, "msg": "timed out"}, gpu_node_boards=["A100-80GB"] * 8))
    assert "GPUs are unknown. The inventory names 8 boards: A100-80GB." in shown(fleet).text


def test_hosts_are_in_natural_order_and_links_lead_to_them():
    found = shown(FLEET)
    assert re.findall(r"<h3>(\w+)", html(FLEET)) == ["down", "gpu2", "gpu10", "none"]
    targets = {attributes["id"] for _tag, attributes in found.elements if "id" in attributes}
    links = {attributes["href"] for attributes in found.attributes("a")} - {"report.json"}
    assert links and all(each.startswith("#") and each[1:] in targets for each in links)
    assert {"#gpu-2-1", "#host-0"} <= links  # a problem of a GPU, and one of a host


def test_slices_have_place_use_and_words():
    (first, lost), *_others = (maps(FLEET)[name] for name in ("gpu10", "gpu2"))
    assert [(each.profile, each.start, each.use) for each in first.slices] == [
        ("1g.10gb", 0, "idle"),
        ("1g.10gb", 1, "idle"),
        ("3g.40gb", 4, "busy"),
    ]
    assert (lost.unreadable, lost.slices, lost.mode) == (True, (), "unknown")
    labels = [attributes.get("aria-label") for attributes in shown(FLEET).attributes("svg")]
    assert "MIG on. 1g.10gb at 0:1 idle; 1g.10gb at 1:1 idle; 3g.40gb at 4:4 busy" in labels
    assert any(str(label).startswith("Layout of the inventory: ") for label in labels)
    assert '<svg class="busy" x="50%" width="50%"' in html(FLEET)


@pytest.mark.parametrize(
    ("processes", "use"), [(None, "unknown"), ([], "idle"), ([process(7)], "busy")], ids=["unknown", "idle", "busy"]
)
def test_a_gpu_without_mig_is_one_slice(processes, use):
    found = report(read("a", state(gpu(0, current=None, processes=processes)), nvidia_mig_layout=None))
    ((only,),) = maps(found).values()
    assert [(each.profile, each.use) for each in only.slices] == [("whole GPU", use)]
    assert totals(found, maps(found))["profiles"][0][use] == 1


def test_totals_count_what_is_known_only():
    found = totals(FLEET, maps(FLEET))
    assert [found[key] for key in ("hosts", "hosts_unread", "gpus", "gpus_unread")] == [4, 1, 3, 1]
    assert found["boards"] == [
        {"board": "A100-80GB", "hosts": 2, "gpus": 3, "mig_on": 2, "mig_off": 0, "without_mig": 0, "unreadable": 1}
    ]
    by_profile = {
        row["profile"]: [row[key] for key in ("instances", "busy", "idle", "unknown")] for row in found["profiles"]
    }
    assert by_profile == {"1g.10gb": [2, 0, 2, 0], "3g.40gb": [2, 1, 1, 0]}
    assert found["drivers"] == {"580.95.05": 3, "unknown": 1}
    assert found["resources"] is None


def test_pods_are_named_where_they_are_known():
    found = {
        "gpu1": read(
            "gpu1", state(gpu(0, *INSTANCES, processes=[process(7, 2, pod="uid1"), process(8, 7, pod="uid2")]))
        )
    }
    pod = user("train", uid="uid1")
    pod["spec"]["nodeName"] = "gpu1"
    view = build.cluster(found, [[node("gpu1", {"nvidia.com/mig-1g.10gb": "2"})], [pod]], cluster_view.Settings())
    text = shown(build.report(found, view)).text
    assert "python3 (PID 7) in pod gpu-operator/train" in text
    assert "python3 (PID 8) in pod uid2" in text  # it has ended
    assert "should advertise nvidia.com/mig-1g.10gb: 2, nvidia.com/mig-3g.40gb: 1" in text


@pytest.mark.parametrize("gi_id", [None, 99], ids=["no instance", "an instance that the GPU lacks"])
def test_a_process_on_an_unknown_instance_leaves_no_instance_idle(gi_id):
    fleet = report(read("gpu1", state(gpu(0, *INSTANCES, processes=[process(7, 2), process(8, gi_id, "train")]))))
    ((found,),) = maps(fleet).values()
    assert [(each.profile, each.use) for each in found.slices] == [
        ("1g.10gb", "unknown"),
        ("1g.10gb", "unknown"),
        ("3g.40gb", "busy"),
    ]
    assert "processes on an unknown instance: train (PID 8)" in shown(fleet).text


def test_a_cluster_that_cannot_be_read_says_so():
    text = shown(report(read(), cluster=ClusterReport(error="Connection refused"))).text
    assert "The cluster cannot be read: Connection refused" in text
    assert "Out of service unknown" in text and "No cluster configured" not in text
    assert "the hosts were not compared with the cluster" in text


HOSTILE = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{ 1234*4321 }}<!--&amp;"


def hostile(index):
    """A GPU whose every text is markup."""
    one = {**instance(2, "3g.40gb", 4, 4), "profile": HOSTILE}
    one["compute_instances"][0].update(uuid=HOSTILE, profile=HOSTILE)
    return gpu(
        index, one, name=HOSTILE, uuid=HOSTILE, pci_bus_id=HOSTILE, processes=[process(7, 2, HOSTILE, pod=HOSTILE)]
    )


def test_without_a_cluster_the_number_of_hosts_out_of_service_is_no_more_than_known():
    assert "Out of service unknown no cluster configured" in shown(report(read())).text
    assert "Out of service at least 1 no cluster configured" in shown(report(read(result=state(drained=True)))).text
    found = {"gpu1": read()}
    fleet = build.report(found, build.cluster(found, [[node("gpu1", {})], []], cluster_view.Settings()))
    assert "Out of service 0 of 1 GPU node" in shown(fleet).text
    stray = {**node("stray", {"nvidia.com/gpu": "8"}), "spec": {"unschedulable": True}}
    fleet = build.report(found, build.cluster(found, [[node("gpu1", {}), stray], []], cluster_view.Settings()))
    assert "Out of service 1 of 2 GPU nodes" in shown(fleet).text


DOWN = {"unreachable": True, "msg": "timed out"}
TWO_LOST = state(
    *({**LOST, "index": index, "problem": "GPU_IS_LOST (GPU %d: lost). Reboot" % index} for index in (0, 1))
)


@pytest.mark.parametrize(
    ("boards", "named", "gpus", "use"),
    [
        ([["A100-80GB"] * 8, ["T4"]], 9, "9 more in the inventory, of 2 unread hosts", "? 11 GPUs of 3 hosts unknown"),
        ([["A100-80GB"] * 8, []], None, "those of 2 hosts unknown", "? GPUs of 3 hosts unknown"),
        ([], 0, "2 cannot be read Instances", "? 2 GPUs of 1 host unknown"),
    ],
    ids=["boards of all unread hosts", "of one", "no unread host"],
)
def test_gpus_that_cannot_be_read_are_counted_beside_the_totals(boards, named, gpus, use):
    unread = [read("down%d" % number, DOWN, gpu_node_boards=each) for number, each in enumerate(boards)]
    fleet = report(read("lost", TWO_LOST), *unread)
    assert totals(fleet, maps(fleet))["gpus_named"] == named
    text = shown(fleet).text
    assert gpus in text and use in text
    assert "Without the instances of 2 GPUs that cannot be read." in text


def test_gpus_with_the_same_problem_are_one_row_with_a_link_to_each():
    html_ = html(report(read("a", TWO_LOST), read("b", TWO_LOST)))
    (row,) = re.findall(r'<tr role="row"><th scope="row".*?</tr>', html_)
    assert "GPU_IS_LOST (lost). Reboot" in row and ">2<" in row
    assert re.findall(r'href="#(gpu-\d-\d)"[^>]*>([^<]*)', row) == [
        ("gpu-0-0", "a GPU 0"),
        ("gpu-0-1", "1"),
        ("gpu-1-0", "b GPU 0"),
        ("gpu-1-1", "1"),
    ]
    assert "Hosts with problems 2 \u25b2 1 problem " in Page(html_).text


def test_boards_that_are_unknown_are_those_of_the_inventory_and_can_be_selected():
    nameless = [{**LOST, "index": index, "name": None, "pci_device_id": None} for index in (1, 0)]
    fleet = report(
        read("a", state(*nameless), gpu_node_boards=["A100-80GB", "H100-80GB"]),
        read("b", state(*nameless), gpu_node_boards=["A100-80GB"]),
        read("c", DOWN, gpu_node_boards=["L4", "L4", "T4"]),
        read("d", DOWN),
    )
    found = shown(fleet)
    assert (
        "1 \u00d7 H100-80GB (named by the inventory), 1 \u00d7 A100-80GB (named by the inventory) \u00b7" in found.text
    )
    assert "GPU 0 A100-80GB (named by the inventory) MIG state unknown" in found.text
    assert "2 \u00d7 unknown" in found.text
    gpus = [each for each in found.attributes("div") if each.get("class") == "gpu"]
    assert [each["data-board"] for each in gpus] == ["H100-80GB", "A100-80GB", "unknown", "unknown"]
    assert [each.get("data-unread") for each in found.attributes("article")] == [None, None, "L4\nT4", "unknown"]
    options = re.findall("<option>([^<]*)", html(fleet))
    assert options == ["A100-80GB", "H100-80GB", "L4", "T4", "unknown"]


def test_hosts_have_the_severity_of_their_gravest_problem():
    fleet = report(
        read("a", state(LOST, drained=True), nvidia_mig_layout=None), read("b", state(drained=True)), read("c")
    )
    assert [each["data-severity"] for each in shown(fleet).attributes("article")] == ["2", "1", "0"]
    assert re.findall(r'<h3>\w <span class="chip (\w*)"', html(fleet)) == ["bad", "warn"]


def test_a_gpu_that_cannot_be_read_has_the_colour_of_unknown_and_its_reason_once():
    lost = shown(report(read(result=state(LOST), nvidia_mig_layout=None)))
    silent = shown(report(read(result=state({**LOST, "problem": None}), nvidia_mig_layout=None)))
    for found, label in ((lost, "unknown"), (silent, "unknown: the driver does not report its MIG state")):
        (image,) = [each for each in found.attributes("svg") if str(each.get("class")).startswith("map")]
        assert (image["class"], image["aria-label"]) == ("map unknown", label)


def test_markup_from_nodes_is_harmless():
    nvidia = {"driver": {"version": HOSTILE, "problem": HOSTILE}, "kernel_module": {}}
    states = state(
        hostile(0),
        {**LOST, "problem": HOSTILE},
        nvidia=nvidia,
        toolkit={"version": None, "problem": HOSTILE},
        nodename=HOSTILE,
    )
    found = {HOSTILE: read(HOSTILE, states), "b": read("b", {"failed": True, "msg": HOSTILE})}
    nodes = [node(HOSTILE.lower(), {"nvidia.com/mig-%s" % HOSTILE: "1"}), node("b", {"nvidia.com/gpu": "1"})]
    view = build.cluster(found, [nodes, []], cluster_view.Settings())
    fleet = build.report(found, view)
    hostile_page, plain = shown(fleet, previous=report(read("c"))), shown(FLEET)
    assert HOSTILE in " ".join(hostile_page._texts) + hostile_page.text
    assert "5332114" not in hostile_page.text
    assert hostile_page.raw == plain.raw
    for tag in ("script", "style", "img"):
        assert len(hostile_page.attributes(tag)) == len(plain.attributes(tag))
    names = {name for _tag, attributes in hostile_page.elements for name in attributes}
    assert not any(name.startswith("on") or name in ("src", "style") for name in names)


def test_the_policy_allows_only_the_pages_own_style_and_script_and_no_request():
    found = shown(FLEET)
    (policy,) = [each["content"] for each in found.attributes("meta") if "http-equiv" in each]
    hashes = {
        kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for kind, text in found.raw.items()
    }
    assert policy == (
        "default-src 'none'; style-src 'sha256-%(style)s'; script-src 'sha256-%(script)s'; base-uri 'none'; "
        "form-action 'none'" % hashes
    )
    assert not re.search(r"https?://(?!www\.gnu\.org)|url\(|@import|fetch\(|XMLHttpRequest|import\(", html(FLEET))
    assert found.attributes("link") == []


def test_hosts_and_gpus_are_headings_and_labels_are_of_elements_with_a_role():
    found = shown(FLEET)
    assert [len(found.attributes(tag)) for tag in ("h1", "h3", "h4")] == [1, 4, 3]
    without = {tag for tag, attributes in found.elements if "aria-label" in attributes and "role" not in attributes}
    assert without <= {"a", "nav", "section"}


def test_tables_have_captions_and_headers_with_scope():
    found = shown(FLEET)
    assert len(found.attributes("caption")) == len(found.attributes("table")) > 3
    assert all(each.get("scope") in ("row", "col") for each in found.attributes("th"))
    assert found.attributes("html") == [{"lang": "en"}]
    images = [each for each in found.attributes("svg") if each.get("role") == "img"]
    assert images and all(each["aria-label"] for each in images)
    # Regions that scroll can be reached with the keyboard.
    assert all(
        "tabindex" in each and each["role"] == "region"
        for each in found.attributes("div")
        if each.get("class") == "wide"
    )


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("palette", [colours.LIGHT, colours.DARK], ids=["light", "dark"])
def test_colours_have_the_contrast_of_level_aa(palette):
    assert round(contrast("#000000", "#ffffff")) == 21
    low = {
        (front, back): round(contrast(palette[front], palette[back]), 2)
        for front, back, ratio in colours.PAIRS
        if contrast(palette[front], palette[back]) < ratio
    }
    assert low == {}


def test_every_colour_is_in_both_palettes_and_every_use_is_defined():
    assert list(colours.LIGHT) == list(colours.DARK)
    assert set(re.findall(r"var\(--([\w-]+)\)", page._text("page.css"))) <= set(colours.LIGHT)


def test_use_is_shown_by_marks_and_not_by_colour_alone():
    assert len(set(page.MARKS.values())) == 3
    text = shown(FLEET).text
    assert "\u25cf 3g.40gb" in text and "\u25cb 1g.10gb" in text


def test_all_kinds_of_problems_have_a_name_and_are_documented():
    documented = re.findall(r"(?m)^\| ([^|]+) \| `(\w+)` \|", Path("docs/report.md").read_text())
    assert documented == [(name, kind) for kind, (name, _severity) in page.KINDS.items()]


# --- Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "names"),
    [("out", ["out/index.html", "out/report.json"]), ("out/fleet #1.html", ["out/fleet #1.html", "out/fleet #1.json"])],
)
def test_page_and_data_are_written_side_by_side(tmp_path, path, names):
    first = files.write(FLEET, None, str(tmp_path / path), False)
    assert [first["page"], first["data"]] == [str(tmp_path / name) for name in names]
    assert first["changed"] is True
    written = json.loads((tmp_path / names[1]).read_text())
    assert 'href="%s"' % quote(Path(names[1]).name) in (tmp_path / names[0]).read_text()
    assert data.of(written) == FLEET
    assert written["totals"] == json.loads(json.dumps(first["totals"]))


def test_only_more_than_the_date_is_a_change(tmp_path):
    files.write(FLEET, None, str(tmp_path), False)
    later = FLEET._replace(created="2027-01-01T00:00:00Z")
    assert files.write(later, None, str(tmp_path), False)["changed"] is False
    assert "2027-01-01" in (tmp_path / "index.html").read_text()
    other = report(read("gpu10"))
    assert files.write(other, None, str(tmp_path), True)["changed"] is True  # check mode
    assert data.read(tmp_path / "report.json") == later
    assert sorted(each.name for each in tmp_path.iterdir()) == ["index.html", "report.json"]


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="cannot be written to .*/file/out: .*Set report_path"):
        files.write(FLEET, None, str(tmp_path / "file" / "out"), False)


def test_the_former_report_is_a_file_or_the_directory_of_a_report(tmp_path):
    assert files.previous("") is None
    files.write(FLEET, None, str(tmp_path), False)
    assert files.previous(str(tmp_path)) == files.previous(str(tmp_path / "report.json")) == FLEET
    with pytest.raises(Refusal, match="no.json cannot be read"):
        files.previous(str(tmp_path / "no.json"))
