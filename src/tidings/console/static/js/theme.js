// Before anything is drawn: light or dark, as was chosen, or as the system says.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("tidings-theme"); } catch { chosen = null; }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
