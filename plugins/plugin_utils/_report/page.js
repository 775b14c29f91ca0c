// Copyright (c) 2026, the gpufleet.node authors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const natural = new Intl.Collator("en", { numeric: true }).compare;

  // Columns of tables are sorted by a button in their header.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      if (header.tagName !== "TH") return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      header.replaceChildren(button);
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const down = header.getAttribute("aria-sort") === "ascending";
        for (const each of headers) if (each.hasAttribute("aria-sort")) each.setAttribute("aria-sort", "none");
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        const keyed = [...body.rows].map((row) => [row.cells[column].textContent.trim(), row]);
        keyed.sort((a, b) => (down ? -1 : 1) * natural(a[0], b[0]));
        body.append(...keyed.map((pair) => pair[1]));
      });
    });
  }

  // The text of hosts and GPUs is read once, when something is searched for.
  const hosts = [...document.querySelectorAll(".host")].map((element) => ({
    element,
    name: element.querySelector("h3").firstChild.textContent.trim(),
    problems: Number(element.dataset.problems),
    severity: Number(element.dataset.severity),
    unread: element.dataset.unread?.split("\n"), // boards that the inventory names
    gpus: [...element.querySelectorAll(".gpu")].map((gpu) => ({
      element: gpu, use: gpu.dataset.use.split(" "), board: gpu.dataset.board, bad: "bad" in gpu.dataset,
      idle: gpu.querySelectorAll(".map svg.idle").length, text: null,
    })),
    text: null,
  }));
  for (const host of hosts) {
    host.bad = host.gpus.some((gpu) => gpu.bad);
    host.unknown = Boolean(host.unread) || host.gpus.some((gpu) => gpu.use.includes("unknown"));
  }
  const text = (item, element) => (item.text ??= element().map((each) => each.textContent).join(" ").toLowerCase());
  const rows = [...document.querySelectorAll("table.filtered tbody tr")];
  const search = byId("search"), use = byId("use"), board = byId("board"), order = byId("order"), only = byId("only");

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (found) => words.every((word) => found.includes(word));
    let shownHosts = 0, shownGpus = 0;
    for (const host of hosts) {
      const own = words.length === 0 ? "" : text(host, () => [...host.element.children].filter((each) => !each.matches(".gpu")));
      const whole = has(own);
      let some = 0;
      for (const gpu of host.gpus) {
        const fits = (!use.value || gpu.use.includes(use.value)) && (!board.value || gpu.board === board.value) &&
          (!only.checked || gpu.bad || (host.problems > 0 && !host.bad)) && (whole || has(own + " " + text(gpu, () => [gpu.element])));
        gpu.element.hidden = !fits;
        some += fits;
      }
      const unread = host.unread && (!use.value || use.value === "unknown") && (!board.value || host.unread.includes(board.value));
      const alone = host.gpus.length === 0 && whole && (unread || (!use.value && !board.value)) && (!only.checked || host.problems > 0);
      host.element.hidden = !some && !alone;
      shownHosts += !host.element.hidden;
      shownGpus += some;
    }
    for (const row of rows) row.hidden = words.length > 0 && !has(row.textContent.toLowerCase());
    byId("shown").textContent = `${shownHosts} of ${hosts.length} hosts, ${shownGpus} GPUs`;
    byId("nothing").hidden = shownHosts > 0;
  }

  function sort() {
    // Hosts whose idle instances are unknown may have some: they are between those that have some and those that have none.
    const idle = (host) => host.gpus.reduce((sum, gpu) => sum + gpu.idle, 0) || (host.unknown ? 0.5 : 0);
    const key = { name: () => 0, problems: (host) => -1e6 * host.severity - host.problems, idle: (host) => -idle(host) }[order.value];
    const keyed = hosts.map((host, number) => [key(host), number, host.element]);
    keyed.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    byId("hosts").append(...keyed.map((each) => each[2]));
  }

  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  for (const control of [use, board, only]) control.addEventListener("change", filter);
  order.addEventListener("change", sort);
  // A link to a host or GPU that the filters hide clears them.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link || !byId(link.hash.slice(1))?.closest("[hidden]")) return;
    for (const control of [search, use, board]) control.value = "";
    only.checked = false;
    filter();
  });
  const form = document.querySelector(".tools");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();

  // Closed details are not printed by all browsers.
  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
})();
