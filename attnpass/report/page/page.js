"use strict";
(() => {
  const root = document.documentElement;
  const names = { "": "as the system", light: "light", dark: "dark" };
  const order = Object.keys(names);
  const theme = document.getElementById("theme");
  const store = {
    // A page from a file may have no storage.
    get() { try { return localStorage.getItem("attnpass-theme") || ""; } catch { return ""; } },
    set(value) { try { localStorage.setItem("attnpass-theme", value); } catch { /* not kept */ } },
  };
  const show = (value) => {
    if (value) root.dataset.theme = value; else delete root.dataset.theme;
    theme.textContent = `Theme: ${names[value]}`;
  };
  let current = store.get() in names ? store.get() : "";
  show(current);
  theme.hidden = false;
  theme.addEventListener("click", () => {
    current = order[(order.indexOf(current) + 1) % order.length];
    store.set(current);
    show(current);
  });

  const groups = [...document.querySelectorAll(".group")];
  const all = document.getElementById("toggle-all");
  if (all && groups.length > 1) {
    const label = () => {
      all.textContent = groups.every((one) => one.open) ? "Close all" : "Open all";
    };
    all.hidden = false;
    label();
    all.addEventListener("click", () => {
      const open = !groups.every((one) => one.open);
      for (const one of groups) one.open = open;
    });
    for (const one of groups) one.addEventListener("toggle", label);
  }
})();
