"use strict";
// What the tests ask a page.
window.probes = (() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => rgba(colour).slice(0, 3)
    .map((x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (one) => {
    let behind = one;
    while (behind && rgba(getComputedStyle(behind).backgroundColor)[3] === 0) {
      behind = behind.parentElement;
    }
    return getComputedStyle(behind || document.body).backgroundColor;
  };
  const ownText = (one) => [...one.childNodes]
    .filter((node) => node.nodeType === Node.TEXT_NODE)
    .map((node) => node.data.trim())
    .join("");
  const all = (selector) => [...document.querySelectorAll(selector)];

  return {
    openAll: () => all("details").forEach((one) => { one.open = true; }),
    // The least contrast of text with what lies behind it, and what that text is.
    contrast: () => {
      let least = [21, ""];
      for (const one of all("body *")) {
        const text = ownText(one);
        if (!text || !one.checkVisibility() || one.closest(".hidden, script, .skip")) continue;
        const pair = [getComputedStyle(one).color, ground(one)].map(luminance);
        const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (ratio < least[0]) least = [ratio, `${text.slice(0, 40)} (${one.className})`];
      }
      return least;
    },
    overflow: () => {
      const { scrollWidth, clientWidth } = document.documentElement;
      return scrollWidth - clientWidth;
    },
    levels: () => all("h1, h2, h3, h4")
      .filter((one) => one.checkVisibility())
      .map((one) => Number(one.tagName[1])),
    nameless: () => all("[role=region], [role=img], section, nav, button")
      .filter((one) => !one.ariaLabel && !one.getAttribute("aria-labelledby"))
      .filter((one) => !one.textContent.trim()).length,
  };
})();
