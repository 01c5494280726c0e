// One consultation: what was said, what it was worth, and what was compared at each state.

class ConsultationView extends HTMLElement {
  show(i, content) {
    const right = column('right', i);
    this.append(element('h3', {}, element('span', {}, nameOfRun(i)),
      element('span', { class: right ? 'right' : 'wrong' }, right ? 'right' : 'wrong')));
    content.turns.forEach((turn, number) => this.append(...this.turn(turn, number)));
    const ending = list.endings[column('ending', i)].replaceAll('_', ' ');
    const answered = content.predicted ? `Answered ${content.predicted}. ` : 'No valid answer. ';
    const learned = content.reward === undefined ? '' :
      ` Reward ${content.reward}, advantage of the consultation ${signed(content.advantage, 2)}.`;
    this.append(element('p', { class: 'outcome' },
      `${answered}Ended by: ${ending}. ${plural(content.actor_tokens, 'token')} of the doctor.${learned}`));
  }

  turn(turn, number) {
    const parts = [];
    const end = turn.said.lastIndexOf('</think>');
    const thought = end < 0 ? '' : turn.said.slice(0, end).replace('<think>', '').trim();
    const said = end < 0 ? turn.said : turn.said.slice(end + '</think>'.length);
    parts.push(element('div', { class: 'said actor' },
      thought ? element('span', { class: 'think' }, thought) : null, said.trim()));
    if (turn.answer !== null) parts.push(element('div', { class: 'said patient' }, turn.answer.trim()));
    if (turn.exact) parts.push(exactly(turn.exact));
    if (turn.state) parts.push(compared(turn.state, number));
    return parts;
  }
}

function exactly(exact) {
  const line = element('p', { class: 'exact' }, 'Exactly, before this turn: correct option ',
    element('b', {}, percent(exact.right)), ', best diagnosis right ', element('b', {}, percent(exact.now)));
  if (exact.value !== null) line.append('; after this question ', element('b', {}, percent(exact.value)));
  if (exact.ask.length) {
    line.append('; after the best (', exact.ask.slice(0, 3).join(' '), exact.ask.length > 3 ? ' …' : '', ') ',
      element('b', {}, percent(exact.best)));
  }
  line.append('.');
  return line;
}

function signed(value, digits) {
  return `${value >= 0 ? '+' : '−'}${Math.abs(value).toFixed(digits)}`;
}

function compared(state, number) {
  const head = element('tr', {}, element('th', {}, 'Candidate'), element('th', {}, 'Answer'),
    ...state.columns.map(([title]) => element('th', { class: 'number' }, title)));
  const body = element('tbody');
  state.rows.forEach(([said, answer, executed, remark], k) => {
    const tag = [executed ? ' executed' : '', remark ? ` ${remark}` : ''].join('');
    const numbers = state.numbers[k].map((value, c) => {
      const [, digits, sign] = state.columns[c];
      const text = value === null ? '' : sign ? signed(value, digits) : value.toFixed(digits);
      return element('td', { class: 'number' }, text);
    });
    body.append(element('tr', { class: executed ? 'executed' : remark ? 'remark' : null },
      element('td', { class: 'said-in-table' }, said, element('span', { class: 'tag' }, tag)),
      element('td', { class: 'said-in-table' }, answer ?? ''), ...numbers));
  });
  return element('details', { class: 'state', open: '' },
    element('summary', {}, `${state.title} at turn ${number + 1}`),
    element('div', { class: 'scroll', tabindex: 0 }, element('table', {}, element('thead', {}, head), body)),
    element('p', { class: 'note' }, state.about));
}
