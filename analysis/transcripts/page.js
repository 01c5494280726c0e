'use strict';
// Data come as scripts that call `arrived`: the only files that a page from a disk may load.
// Every text is set by textContent, so that nothing that a model or a case says becomes markup.

const HEIGHT = 46; // of a row of the list, in pixels, as in the style
const KEPT = 40; // files of data kept in memory
const waiting = new Map(), loaded = new Map();
let list = null, matching = [], current = -1;

function arrived(name, contents) {
  if (name === 'list') { list = contents; start(); return; }
  const { settle } = waiting.get(name);
  waiting.delete(name);
  loaded.set(name, contents);
  if (loaded.size > KEPT) loaded.delete(loaded.keys().next().value);
  settle(contents);
}

function load(name) {
  if (loaded.has(name)) return Promise.resolve(loaded.get(name));
  if (!waiting.has(name)) {
    const entry = {};
    entry.promise = new Promise((settle, fail) => {
      entry.settle = settle;
      const script = element('script');
      script.src = `data/${name}.js`;
      script.onload = () => script.remove();
      script.onerror = () => { waiting.delete(name); fail(new Error(`${script.src} is missing`)); };
      document.head.append(script);
    });
    waiting.set(name, entry);
  }
  return waiting.get(name).promise;
}

async function item(kind, number) {
  const file = Math.floor(number / list.at_once);
  return (await load(`${kind}-${file}`))[number - file * list.at_once];
}

// ---- small helpers

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;
const column = (name, i) => list.rows[name][i];
const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;
const inTraining = (i) => list.places[column('place', i)][0] === 'training';

function nameOfRun(i) {
  const [, title, run] = list.runs[column('run', i)];
  const update = inTraining(i) ? `, update ${column('update', i)}` : '';
  return `${title}, run ${run}${update}`;
}

function keyOf(i) {
  const [method, , run] = list.runs[column('run', i)];
  const update = inTraining(i) ? column('update', i) : '';
  return [list.places[column('place', i)][0], method, run, update, list.cases[column('case', i)]].join('/');
}

// ---- filters, kept in the address so that a view can be linked

const FILTERS = [
  ['place', 'Benchmark', () => list.places.filter((_, place) => list.rows.place.includes(place))],
  ['method', 'Method', () => [...new Map(list.runs.map(([name, title]) => [name, [name, title]])).values()]],
  ['run', 'Run', () => [...new Set(list.runs.map((run) => run[2]))].sort().map((run) => [run, run])],
  ['update', 'Update', () => [...new Set(list.rows.update)].sort((a, b) => a - b).map((update) => [update, update])],
  ['outcome', 'Outcome', () => [['right', 'right'], ['wrong', 'wrong']]],
  ['ending', 'Ending', () => list.endings.map((name) => [name, name.replaceAll('_', ' ')])],
  ['compared', 'Candidates', () => [['yes', 'with candidates']]],
];

function buildFilters() {
  const form = document.getElementById('filters');
  for (const [name, title, choices] of FILTERS) {
    const select = element('select', { name }, element('option', { value: '' }, 'all'));
    for (const [value, text] of choices()) select.append(element('option', { value }, text));
    form.append(element('label', {}, title, select));
  }
  for (const [name, title] of [['from', 'Questions from'], ['to', 'to']]) {
    form.append(element('label', {}, title, element('input', { name, type: 'number', min: 0 })));
  }
  form.append(element('label', {}, 'Case', element('input', { name: 'case', type: 'search', size: 14 })));
  form.addEventListener('input', () => filter(true));
  form.addEventListener('submit', (event) => event.preventDefault());
}

function filter(byHand) {
  const form = document.getElementById('filters');
  const wanted = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ''));
  const runs = list.runs.map(([method, , run]) =>
    (!wanted.method || wanted.method === method) && (!wanted.run || wanted.run === run));
  const place = list.places.findIndex(([name]) => name === wanted.place);
  const ending = list.endings.indexOf(wanted.ending);
  const right = wanted.outcome === 'right' ? 1 : 0;
  const text = (wanted.case || '').toLowerCase();
  const cases = text && list.cases.map((id) => id.toLowerCase().includes(text));
  const from = Number(wanted.from ?? 0), to = Number(wanted.to ?? Infinity);
  const rows = list.rows;
  matching = [];
  for (let i = 0; i < rows.run.length; i++) {
    if (runs[rows.run[i]] && (!wanted.place || rows.place[i] === place) &&
        (!wanted.update || rows.update[i] === Number(wanted.update)) &&
        (!wanted.outcome || rows.right[i] === right) &&
        (!wanted.ending || rows.ending[i] === ending) && (!wanted.compared || rows.compared[i]) &&
        rows.questions[i] >= from && rows.questions[i] <= to && (!cases || cases[rows.case[i]])) {
      matching.push(i);
    }
  }
  const share = matching.filter((i) => rows.right[i]).length / (matching.length || 1);
  document.getElementById('count').textContent =
    `${plural(matching.length, 'consultation')} of ${rows.run.length.toLocaleString('en')}` +
    (matching.length ? `, ${percent(share)} right` : '');
  document.querySelector('transcript-list').refresh();
  if (byHand) remember({ ...wanted, ...opened() });
}

function opened() {
  const beside = document.querySelector('#beside')?.value;
  return current < 0 ? {} : { open: keyOf(current), ...(beside ? { with: beside } : {}) };
}

function remember(values) {
  history.replaceState(null, '', `#${new URLSearchParams(values)}`);
}

function filtersNow() {
  const form = new FormData(document.getElementById('filters'));
  return Object.fromEntries([...form].filter(([, value]) => value !== ''));
}

function follow() {
  const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const form = document.getElementById('filters');
  for (const field of form.elements) field.value = wanted[field.name] ?? '';
  filter(false);
  const rows = [...list.rows.run.keys()];
  const found = wanted.open ? rows.find((i) => keyOf(i) === wanted.open) : matching[0];
  if (found !== undefined) open(found, wanted.with);
}

// ---- the list: only the rows in sight are in the page

class TranscriptList extends HTMLElement {
  connectedCallback() {
    this.tabIndex = 0;
    this.setAttribute('role', 'listbox');
    this.setAttribute('aria-label', 'Consultations');
    this.room = element('div');
    this.append(this.room);
    this.addEventListener('scroll', () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this);
    this.addEventListener('click', (event) => {
      const row = event.target.closest('.row');
      if (row) open(Number(row.dataset.number));
    });
    this.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (!step || !matching.length) return;
      event.preventDefault();
      const at = matching.indexOf(current) + step;
      open(matching[Math.max(0, Math.min(matching.length - 1, at))]);
    });
  }

  refresh() {
    this.room.style.height = `${matching.length * HEIGHT}px`;
    this.scrollTop = 0;
    this.draw();
  }

  reveal(i) {
    const top = matching.indexOf(i) * HEIGHT;
    if (top < 0) return;
    if (top < this.scrollTop) this.scrollTop = top;
    if (top + HEIGHT > this.scrollTop + this.clientHeight) this.scrollTop = top + HEIGHT - this.clientHeight;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.scrollTop / HEIGHT) - 5);
    const last = Math.min(matching.length, first + Math.ceil(this.clientHeight / HEIGHT) + 10);
    const rows = [];
    for (let at = first; at < last; at++) rows.push(this.row(matching[at], at));
    this.room.replaceChildren(...rows);
  }

  row(i, at) {
    const right = column('right', i);
    const row = element('div', { class: 'row', role: 'option', 'aria-selected': String(i === current),
      'aria-posinset': at + 1, 'aria-setsize': matching.length },
      element('span', { class: `mark ${right ? 'right' : 'wrong'}` }, right ? 'right' : 'wrong'),
      list.cases[column('case', i)], element('br'),
      element('span', { class: 'second' }, `${nameOfRun(i)} · ${plural(column('questions', i), 'question')}`));
    row.style.top = `${at * HEIGHT}px`;
    row.dataset.number = i;
    return row;
  }
}

// ---- a case, and consultations of it side by side

async function open(i, beside = '') {
  current = i;
  document.querySelector('transcript-list').reveal(i);
  const shown = document.getElementById('shown');
  let content;
  try {
    const [known, ...views] = await Promise.all([item('cases', column('case', i)), view(i)]);
    const columns = element('div', { class: 'beside' }, ...views);
    const choice = chooser(i, columns);
    content = [theCase(known, i), choice, columns];
    if (beside && [...choice.querySelectorAll('option')].some((o) => o.value === beside)) {
      choice.querySelector('select').value = beside;
      await compare(i, beside, columns);
    }
  } catch (problem) {
    content = [element('p', { class: 'wrong' }, String(problem.message))];
  }
  if (current !== i) return; // another one was opened meanwhile
  shown.replaceChildren(...content);
  shown.scrollTop = 0;
  shown.dataset.opened = keyOf(i);
  remember({ ...filtersNow(), ...opened() });
}

async function view(i) {
  const made = document.createElement('consultation-view');
  made.show(i, await item('consultations', i));
  return made;
}

function theCase(known, i) {
  const options = element('ul', { class: 'options' });
  for (const [label, text] of Object.entries(known.options)) {
    const right = label === known.answer;
    options.append(element('li', { class: right ? 'is-right' : null }, `${label}. ${text}${right ? ' (correct)' : ''}`));
  }
  const facts = element('ul', {}, ...known.facts.map((fact) => element('li', {}, fact)));
  return element('div', { class: 'facts-of' },
    element('h2', {}, `${known.case_id} · ${list.places[column('place', i)][1]}`),
    element('div', {}, known.initial), element('div', {}, known.question), options,
    element('details', {}, element('summary', {}, `What the patient knows (${plural(known.facts.length, 'fact')})`), facts));
}

function chooser(i, columns) {
  const select = element('select', { id: 'beside' }, element('option', { value: '' }, 'nothing'));
  const rows = list.rows;
  for (let other = 0; other < rows.run.length; other++) {
    if (other !== i && rows.case[other] === rows.case[i] && rows.place[other] === rows.place[i]) {
      const outcome = rows.right[other] ? 'right' : 'wrong';
      select.append(element('option', { value: keyOf(other) }, `${nameOfRun(other)} (${outcome})`));
    }
  }
  select.addEventListener('change', async () => {
    await compare(i, select.value, columns);
    remember({ ...filtersNow(), ...opened() });
  });
  return element('label', {}, 'Beside it, on the same case', select);
}

async function compare(i, key, columns) {
  const other = key && [...list.rows.run.keys()].find((row) => row !== i && keyOf(row) === key);
  const views = other ? [await view(other)] : [];
  columns.replaceChildren(columns.firstChild, ...views);
}

function start() {
  customElements.define('transcript-list', TranscriptList);
  customElements.define('consultation-view', ConsultationView);
  buildFilters();
  window.addEventListener('hashchange', follow);
  follow();
}
