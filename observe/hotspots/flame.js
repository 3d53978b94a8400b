(() => {
  "use strict";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Flame graphs: a bar that is chosen fills the width; a search tells the share of what it finds.
  all("svg.flame").forEach((flame) => {
    const tools = flame.previousElementSibling, input = tools.querySelector("input");
    const [status, said] = flame.nextElementSibling.children;
    const path = [], bars = all("svg", flame).map((element) => {
      const depth = Number(element.dataset.depth), lines = element.dataset.tip.split("\n");
      const bar = { element, depth, samples: Number(element.dataset.samples), of: path[depth - 1], calls: [], left: 0, used: 0 };
      bar.name = `${lines[0]} ${depth ? lines[1] : ""}`.toLowerCase();
      if (bar.of) {
        bar.left = bar.of.left + bar.of.used;
        bar.of.used += bar.samples;
        bar.of.calls.push(bar);
      }
      path[depth] = bar;
      element.setAttribute("role", "treeitem");
      element.setAttribute("aria-label", lines.join(", "));
      element.setAttribute("aria-level", depth + 1);
      element.tabIndex = depth ? -1 : 0;
      return bar;
    });
    if (!bars.length) return;
    const of = new Map(bars.map((bar) => [bar.element, bar]));
    const percent = (samples) => `${Number((100 * samples / bars[0].samples).toPrecision(3))} %`;
    let whole = bars[0], here = bars[0];

    const below = (bar, top) => bar && (bar === top || below(bar.of, top));
    const draw = () => {
      const width = flame.clientWidth;
      bars.forEach((bar) => {
        const above = bar !== whole && below(whole, bar), inside = below(bar, whole);
        const share = above ? 1 : bar.samples / whole.samples;
        bar.element.classList.toggle("above", Boolean(above));
        bar.element.classList.toggle("hidden", !above && !inside);
        bar.element.classList.toggle("narrow", share * width < 24);
        bar.element.setAttribute("x", `${above ? 0 : 100 * (bar.left - whole.left) / whole.samples}%`);
        bar.element.setAttribute("width", `${100 * share}%`);
      });
    };
    const say = (bar) => { said.textContent = bar.element.dataset.tip.replaceAll("\n", " · "); };
    const go = (bar) => {
      if (!bar) return;
      here.element.tabIndex = -1;
      here = bar;
      bar.element.tabIndex = 0;
      bar.element.focus();
    };
    const fill = (bar) => {
      whole = bar;
      draw();
      status.textContent = bar.of ? `${bar.element.dataset.tip.split("\n")[0]}: ${percent(bar.samples)} of all samples fills the width` : "all is shown";
    };
    const beside = (bar, step) => {
      const row = bars.filter((each) => each.depth === bar.depth && !each.element.classList.contains("hidden"));
      return row[row.indexOf(bar) + step];
    };
    const keys = {
      ArrowDown: () => go(here.calls.find((bar) => !bar.element.classList.contains("hidden"))),
      ArrowUp: () => go(here.of),
      ArrowLeft: () => go(beside(here, -1)),
      ArrowRight: () => go(beside(here, 1)),
      Home: () => go(bars[0]),
      Enter: () => fill(here),
      " ": () => fill(here),
      Escape: () => fill(bars[0]),
    };
    flame.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    const at = (event) => of.get(event.target.closest("svg.bar"));
    flame.addEventListener("focusin", (event) => at(event) && say(at(event)));
    flame.addEventListener("pointerover", (event) => at(event) && say(at(event)));
    flame.addEventListener("click", (event) => { if (at(event)) { go(at(event)); fill(here); } });
    tools.querySelector("button").addEventListener("click", () => { input.value = ""; search(); fill(bars[0]); });

    // A bar within one that is found counts once.
    const search = () => {
      const words = input.value.trim().toLowerCase();
      const found = bars.filter((bar) => bar.depth && words && bar.name.includes(words)), all = new Set(found);
      bars.forEach((bar) => bar.element.classList.toggle("found", all.has(bar)));
      flame.classList.toggle("searched", Boolean(words));
      const outer = found.filter((bar) => { for (let up = bar.of; up; up = up.of) if (all.has(up)) return false; return true; });
      const samples = outer.reduce((sum, bar) => sum + bar.samples, 0);
      status.textContent = words ? `${found.length} bars, ${percent(samples)} of all samples` : "";
      return found.sort((a, b) => b.samples - a.samples)[0];
    };
    input.addEventListener("input", search);
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      const most = search();
      if (most?.element.classList.contains("hidden")) fill(bars[0]);
      go(most);
    });
    flame.setAttribute("role", "tree");
    tools.hidden = flame.nextElementSibling.hidden = false;
    draw();
    addEventListener("resize", draw);
  });
})();
