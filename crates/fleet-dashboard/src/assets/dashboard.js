// Keeps an open page up to date: the server says that something changed, and the page is fetched again and merged into the document.
// Pages work without this script; it also copies commands, filters tiles and counts ages.
'use strict';
(() => {
  const live = document.documentElement.dataset.live === 'yes';
  const byId = (id) => document.getElementById(id);

  // Makes `from` equal to `to`, but keeps open details, inputs, focus and scroll positions.
  function merge(from, to) {
    if (from.isEqualNode(to)) return;
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !kept(from, name)) from.removeAttribute(name);
    }
    for (const { name, value } of [...to.attributes]) {
      if (from.getAttribute(name) !== value && !kept(from, name)) from.setAttribute(name, value);
    }
    if (from.dataset.loaded && to.dataset.load) return;
    const named = new Map();
    for (const child of from.children) if (child.id) named.set(child.id, child);
    let place = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      let found = wanted.id ? named.get(wanted.id) : null;
      if (!found && place && place.nodeType === wanted.nodeType && place.nodeName === wanted.nodeName && !place.id && !wanted.id) found = place;
      if (!found) {
        from.insertBefore(document.importNode(wanted, true), place);
      } else {
        if (found !== place) from.insertBefore(found, place); else place = place.nextSibling;
        if (found.nodeType === Node.ELEMENT_NODE) merge(found, wanted);
        else if (found.nodeValue !== wanted.nodeValue) found.nodeValue = wanted.nodeValue;
      }
    }
    while (place) { const next = place.nextSibling; place.remove(); place = next; }
  }
  const kept = (element, name) => (element.nodeName === 'DETAILS' && name === 'open') || name === 'data-loaded' ||
    (element.nodeName === 'BUTTON' && name === 'hidden') || (element.classList.contains('tile') && name === 'hidden');

  let fetching = false, again = false;
  async function refresh() {
    if (document.hidden || fetching) { again = true; return; }
    fetching = true; again = false;
    try {
      const response = await fetch(location.href, { credentials: 'same-origin' });
      const next = new DOMParser().parseFromString(await response.text(), 'text/html');
      for (const id of ['top', 'main']) if (byId(id) && next.getElementById(id)) merge(byId(id), next.getElementById(id));
      document.title = next.title;
      await prepare(true);
    } catch { lost(true); }
    fetching = false;
    if (again) setTimeout(refresh, 300);
  }

  // Parts that take longer, such as a diagnosis, are loaded after the page.
  async function loadParts() {
    for (const part of document.querySelectorAll('[data-load]')) {
      try {
        const response = await fetch(part.dataset.load, { headers: { 'X-Part': 'yes' }, credentials: 'same-origin' });
        if (!response.ok) continue;
        const next = new DOMParser().parseFromString(await response.text(), 'text/html');
        const copy = part.cloneNode(false);
        copy.removeAttribute('data-load');
        copy.append(...next.body.childNodes);
        part.removeAttribute('data-loaded');
        const source = part.dataset.load;
        part.removeAttribute('data-load');
        merge(part, copy);
        part.dataset.load = source;
        part.dataset.loaded = 'yes';
      } catch { /* the link to the page of the part stays */ }
    }
  }

  function ages() {
    const now = Date.now();
    for (const time of document.querySelectorAll('time[data-age]')) {
      const seconds = Math.floor((now - Date.parse(time.dateTime)) / 1000);
      const text = duration(time.dataset.age === 'until' ? -seconds : seconds);
      if (time.textContent !== text) time.textContent = text;
    }
  }
  function duration(seconds) {
    const s = Math.max(0, seconds), m = Math.floor(s / 60), h = Math.floor(s / 3600);
    const two = (big, unit, small, other) => small ? `${big} ${unit} ${small} ${other}` : `${big} ${unit}`;
    if (s < 60) return `${s} s`;
    if (s < 600) return two(m, 'min', s % 60, 's');
    if (s < 3600) return `${m} min`;
    if (s < 86400) return two(h, 'h', m % 60, 'min');
    return `${Math.floor(s / 86400)} d`;
  }

  function filter() {
    const field = document.querySelector('input[data-filter]');
    if (!field) return;
    const text = field.value.toLowerCase();
    for (const tile of document.querySelectorAll('.tile[data-name]')) {
      tile.hidden = !`${tile.dataset.name} ${tile.dataset.labels || ''}`.toLowerCase().includes(text);
    }
  }

  async function prepare(parts) {
    for (const button of document.querySelectorAll('button[data-copy]')) button.hidden = !navigator.clipboard;
    filter();
    ages();
    if (parts) await loadParts();
  }

  document.addEventListener('click', async (event) => {
    const button = event.target.closest('button[data-copy]');
    if (!button) return;
    await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
    const before = [...button.childNodes];
    button.replaceChildren('Copied');
    setTimeout(() => button.replaceChildren(...before), 1500);
  });
  document.addEventListener('input', (event) => { if (event.target.matches('input[data-filter]')) filter(); });
  document.addEventListener('submit', (event) => { for (const button of event.target.querySelectorAll('button')) setTimeout(() => { button.disabled = true; }, 0); });
  document.addEventListener('visibilitychange', () => { if (!document.hidden && again) refresh(); });
  window.addEventListener('pageshow', (event) => { for (const button of document.querySelectorAll('form button')) button.disabled = false; if (event.persisted && live) refresh(); });

  const lost = (is) => { const banner = byId('connection'); if (banner) banner.hidden = !is; };
  function follow() {
    const source = new EventSource('/events');
    let opened = false;
    source.addEventListener('changed', refresh);
    source.onopen = () => { lost(false); if (opened) refresh(); opened = true; };
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) { refresh(); setTimeout(follow, 5000); } else lost(true); };
  }
  prepare(true);
  if (live) { setInterval(ages, 1000); follow(); }
})();
