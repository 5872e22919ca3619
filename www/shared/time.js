// Lengths as text, and the one loop that moves what runs down.

/** `4.2 s`, `1 min 05 s`, `2 h 10 min`: as wide as the one before, in tabular figures. */
export function lengthOf(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${two((seconds % 3600) / 60)} min`;
}

/** `11:24:05`, here. */
export function clockOf(date = new Date()) {
  return date.toTimeString().slice(0, 8);
}

const calm = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Calls `draw(now)` with `performance.now()` whenever the page is to be drawn, or twice a second for whoever wants
 * no motion, and not at all while nobody sees it.
 */
export function everyFrame(draw) {
  let last = -Infinity;
  const frame = (now) => {
    requestAnimationFrame(frame);
    if (calm.matches && now - last < 500) return;
    last = now;
    draw(now);
  };
  requestAnimationFrame(frame);
}
