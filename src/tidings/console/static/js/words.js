// Figures and times as people read them.

export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 0 : 1) + "M";
  if (size >= 1e4) return (value / 1e3).toFixed(size >= 1e5 ? 0 : 1) + "k";
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-GB");
  return value.toFixed(size < 10 ? 1 : 0);
}

export function millis(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 10000) return "> 10 s";
  if (value >= 1000) return (value / 1000).toFixed(1) + " s";
  return (value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)) + " ms";
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

export function ago(seconds, now) {
  const gone = Math.max(0, now - seconds);
  if (gone < 60) return `${Math.round(gone)} s`;
  if (gone < 3600) return `${Math.round(gone / 60)} min`;
  if (gone < 172800) return `${Math.round(gone / 3600)} h`;
  return `${Math.round(gone / 86400)} d`;
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

export const natural = new Intl.Collator("en", { numeric: true }).compare;
