"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const search = at("search"), count = at("count"), none = at("none"), open = at("open");
  const rows = [...document.querySelectorAll(".var")];
  const rest = at("unchanged");  // what is folded up, if anything is
  let folded = true;
  const chips = [...document.querySelectorAll(".chips input")];

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kinds = chips.filter((chip) => chip.checked).map((chip) => chip.value);
    let found = 0;
    for (const row of rows) {
      const fits = words.every((word) => row.dataset.find.includes(word))
        && kinds.every((kind) => row.classList.contains(kind));
      row.hidden = !fits;
      found += fits;
    }
    const all = !words.length && !kinds.length;
    if (rest) {
      if (!all && rest.dataset.looked !== "1") folded = !rest.open;
      rest.open = all && rest.dataset.looked === "1" ? !folded : all ? rest.open : true;
      rest.dataset.looked = all ? "" : "1";
      rest.hidden = ![...rest.querySelectorAll(".var")].some((row) => !row.hidden);
    }
    count.textContent = all ? count.dataset.all : `${found} of ${rows.length}`;
    none.hidden = found > 0 || !rows.length;
  };

  const seen = () => rows.filter((row) => !row.hidden && !(rest && !rest.open && rest.contains(row)));

  search.hidden = open.hidden = false;
  search.addEventListener("input", show);
  for (const chip of chips) chip.addEventListener("change", show);

  open.addEventListener("click", () => {
    const opening = open.textContent === "open all";
    if (rest) rest.open = opening || rest.dataset.looked === "1";
    for (const row of seen()) row.firstElementChild.open = opening;
    open.textContent = opening ? "close all" : "open all";
  });

  // A layer's column looks for what that layer has touched; once more, for everything.
  for (const link of document.querySelectorAll(".layers a")) {
    link.addEventListener("click", () => {
      search.value = search.value === link.dataset.find ? "" : link.dataset.find;
      show();
    });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const here = document.activeElement;
    if (event.key === "/" && here !== search) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && here === search) {
      search.value = "";
      show();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const heads = seen().map((row) => row.querySelector("summary"));
      const place = heads.indexOf(here);
      if (place < 0 && here !== search) return;
      const next = heads[event.key === "ArrowDown" ? place + 1 : place - 1];
      if (place <= 0 && event.key === "ArrowUp") search.focus();
      else if (next) next.focus();
      event.preventDefault();
    }
  });

  show();  // a page that comes back from the history may have a search in it
})();
