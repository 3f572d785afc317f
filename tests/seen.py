"""What can be wrong with a page that a browser shows: each question gives the faults, as text; none is good."""

from __future__ import annotations

from tests.browser import Browser

TEXT, GRAPHICS = 4.5, 3.0
"""Least contrast (WCAG 2.2, AA)."""

CONTRASTS = """
const [least, leastLine] = arguments;
const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
const pen = canvas.getContext('2d', {willReadFrequently: true});
const rgba = (text) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = text; pen.fillRect(0, 0, 1, 1); const d = pen.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const behind = (element) => {
  const box = element.closest('svg') && element.closest('g')?.querySelector(':scope > rect');
  if (box && element.tagName === 'text') return rgba(getComputedStyle(box).fill);
  for (let one = element; one; one = one.parentElement) {
    const colour = rgba(getComputedStyle(one).backgroundColor);
    if (colour[3] === 1) return colour;
    if (colour[3] > 0) return null;
  }
  return [255, 255, 255, 1];
};
const faults = new Set();
let looked = 0;
for (const details of document.querySelectorAll('details')) details.open = true;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !element.getClientRects().length || ['TITLE', 'DESC', 'title', 'desc', 'NOSCRIPT', 'SCRIPT'].includes(element.tagName)) continue;
  const style = getComputedStyle(element), back = behind(element);
  const colour = rgba(element.tagName === 'text' ? style.fill : style.color);
  looked += 1;
  if (!back || colour[3] !== 1) faults.add(`cannot be told: ${element.outerHTML.slice(0, 120)}`);
  else if (ratio(colour, back) < least) faults.add(`${ratio(colour, back).toFixed(2)}: ${element.outerHTML.slice(0, 120)}`);
}
for (const line of document.querySelectorAll('svg .line, svg .arrow, svg rect.node')) {
  const colour = rgba(getComputedStyle(line).stroke), back = behind(line.closest('svg').parentElement);
  looked += 1;
  if (ratio(colour, back) < leastLine) faults.add(`${ratio(colour, back).toFixed(2)}: ${line.getAttribute('class')}`);
}
if (looked < 40) faults.add(`only ${looked} texts were looked at`);
return [...faults];
"""

STRUCTURE = """
const faults = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const say = (ok, what) => { if (!ok) faults.push(what); };
say(document.documentElement.lang === 'en', 'no language');
say(document.title.trim().length > 3, 'no title');
for (const landmark of ['main', 'body > header', 'body > footer', 'nav']) say(all(landmark).length >= 1, `no ${landmark}`);
say(all('main').length === 1, 'several mains');
say(all('h1').length === 1, `${all('h1').length} first headings`);
let level = 0;
for (const heading of all('h1, h2, h3, h4')) {
  const own = Number(heading.tagName[1]);
  say(own <= level + 1, `${heading.textContent} jumps to level ${own}`);
  say(heading.textContent.trim(), 'an empty heading');
  level = own;
}
for (const nav of all('nav')) say(nav.getAttribute('aria-label'), 'a nav without a name');
for (const section of all('main section')) {
  const named = document.getElementById(section.getAttribute('aria-labelledby') || '');
  say(named && named.textContent.trim(), `a section without a name: ${section.outerHTML.slice(0, 80)}`);
}
for (const table of all('table')) {
  say(table.caption && table.caption.textContent.trim(), 'a table without a caption');
  for (const head of table.querySelectorAll('th')) say(['col', 'row'].includes(head.scope), `a head without scope: ${head.textContent}`);
  for (const row of table.querySelectorAll('tbody tr')) say(row.querySelector('th[scope=row]'), 'a row without a head');
}
for (const svg of all('svg')) {
  const named = (svg.getAttribute('aria-labelledby') || '').split(' ').map((id) => document.getElementById(id));
  const told = document.getElementById(svg.getAttribute('aria-describedby') || '');
  say(svg.getAttribute('role') === 'img' && named.every((one) => one && one.textContent.trim()), `a picture without a name: ${svg.outerHTML.slice(0, 80)}`);
  say(told && told.textContent.trim(), `a picture without a description: ${svg.outerHTML.slice(0, 80)}`);
}
const ids = all('[id]').map((one) => one.id);
for (const id of ids.filter((one, k) => ids.indexOf(one) !== k)) faults.push(`two have the id ${id}`);
for (const control of all('a[href], button, summary')) say(control.textContent.trim(), `nothing to read out: ${control.outerHTML.slice(0, 80)}`);
for (const region of all('.scroll')) say(region.tabIndex === 0 && (region.getAttribute('aria-label') || region.getAttribute('aria-labelledby')), 'a scrolling region that keys do not reach');
say(all('[style], script:not([src]), [onclick], [onload], style').length === 0, 'styles or scripts are inline');
say(all('[role=status]').length === 1, 'nobody tells what changes');
return faults;
"""

WIDE = """
const wide = document.documentElement.scrollWidth - innerWidth;
if (wide <= 0) return [];
const out = [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll'));
return [`${wide} px wider than the window`, ...out.slice(0, 3).map((e) => e.outerHTML.slice(0, 120))];
"""


def contrast_faults(browser: Browser) -> list[str]:
    """Texts, and lines of pictures, that are hard to tell from what is behind them."""
    return browser.run(CONTRASTS, TEXT, GRAPHICS)


def structure_faults(browser: Browser) -> list[str]:
    """What somebody misses who hears the page."""
    return browser.run(STRUCTURE)


def width_faults(browser: Browser) -> list[str]:
    """What makes the page scroll sideways."""
    return browser.run(WIDE)
