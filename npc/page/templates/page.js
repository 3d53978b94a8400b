"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Theme: as the system has it, or as chosen; the choice is stored where the browser allows that for files.
  const themes = ["automatic", "light", "dark"];
  const theme = document.getElementById("theme");
  const storedTheme = (value) => {
    try {
      if (value !== undefined) localStorage.setItem("npc-theme", value);
      return localStorage.getItem("npc-theme");
    } catch { return null; }
  };
  const wear = (name) => {
    if (name === "automatic") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    theme.textContent = `Theme: ${name}`;
  };
  let chosen = themes.includes(storedTheme()) ? storedTheme() : "automatic";
  wear(chosen);
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
    wear(chosen);
    storedTheme(chosen);
  });

  // A link to a record, or an address that ends in one: open what it is folded in, and show it whatever the filter.
  const show = (id) => {
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let up = target.parentElement; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    target.classList.remove("filtered");
    all(".target").forEach((marked) => marked.classList.remove("target"));
    if (target.tagName === "TR") {
      target.classList.add("target");
      target.scrollIntoView({ block: "center" });
      target.focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", () => show(location.hash.slice(1)));
  show(location.hash.slice(1));
  document.addEventListener("click", (event) => {
    const mark = event.target.closest("[data-record]");
    if (!mark) return;
    const id = mark.dataset.record;
    if (location.hash === `#${id}`) show(id);
    else if (mark.tagName !== "A") location.hash = id;
  });

  // What a mark says, beside the pointer.
  const tip = document.getElementById("tip");
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (mark) tip.textContent = mark.dataset.tip;
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 16;
    const top = below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : below;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  // What is wider or longer than its place can be scrolled by keyboard, and only that is a stop on the way.
  const fits = (place) => place.scrollWidth <= place.clientWidth && place.scrollHeight <= place.clientHeight;
  const stops = () => all(".scroll, .picture").forEach((place) => {
    if (fits(place)) return place.removeAttribute("tabindex");
    place.tabIndex = 0;
    if (place.dataset.label) {
      place.setAttribute("role", "region");
      place.setAttribute("aria-label", place.dataset.label);
    }
  });
  stops();
  addEventListener("resize", stops);
  document.addEventListener("toggle", stops, true);

  // Legends switch the lines of their chart; a double click leaves one line alone, or shows all again.
  const isOn = (button) => button.getAttribute("aria-pressed") === "true";
  const tracesOf = (button) => all(`#${button.dataset.chart} .trace[data-trace="${button.dataset.trace}"]`);
  const turn = (button, on) => {
    button.setAttribute("aria-pressed", on);
    tracesOf(button).forEach((trace) => trace.classList.toggle("off", !on));
  };
  all(".legend button").forEach((button) => {
    const others = all("button", button.closest(".legend")).filter((other) => other !== button);
    button.addEventListener("click", () => turn(button, !isOn(button)));
    const point = (on) => tracesOf(button).forEach((trace) => trace.classList.toggle("shown", on));
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => point(true));
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => point(false));
    button.addEventListener("dblclick", () => {
      const alone = isOn(button) && !others.some(isOn);
      turn(button, true);
      others.forEach((other) => turn(other, alone));
    });
  });

  // Tables are sorted by their headings, which become buttons.
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort ?? cell.textContent.trim();
  };
  const compare = (a, b) => {
    const x = Number(a), y = Number(b);
    if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    if (a === "" || b === "") return (a === "") - (b === "");
    return a.localeCompare(b, "en", { numeric: true });
  };
  all("table.sortable").forEach((table) => all("thead th", table).forEach((head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      all("thead th", table).forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [value(row, head.cellIndex), row]);
      rows.sort((a, b) => compare(a[0], b[0]) * (down && a[0] !== "" && b[0] !== "" ? -1 : 1));
      body.append(...rows.map(([, row]) => row));
    });
  }));

  // Filters: a row stays that has every word.
  const filter = (input, tables, bad, matches) => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, rows = 0;
    tables.forEach((table) => [...table.tBodies[0].rows].forEach((row) => {
      const text = row.textContent.toLowerCase();
      const stays = words.every((word) => text.includes(word)) && !(bad?.checked && !row.classList.contains("bad"));
      row.classList.toggle("filtered", !stays);
      shown += stays;
      rows += 1;
    }));
    matches.textContent = words.length || bad?.checked ? `${shown} of ${rows} rows` : "";
  };
  all(".filter").forEach((bar) => {
    const input = bar.querySelector("input[type=search]"), bad = bar.querySelector("input[type=checkbox]");
    const tables = bar.dataset.table ? all(`table.${bar.dataset.table}`) : [bar.nextElementSibling.querySelector("table")];
    const matches = bar.querySelector(".matches");
    let waiting = 0;
    const soon = () => { clearTimeout(waiting); waiting = setTimeout(() => filter(input, tables, bad, matches), 80); };
    input.addEventListener("input", soon);
    bad?.addEventListener("change", soon);
  });
})();
