/* Cells of our magics read as what they are: a command line, then YAML. What is wrong in them is underlined while they
 * are written, and Ctrl-Space completes on a blank line too.
 *
 * This is the whole extension, as the browser loads it: a module federation container written by hand, so no bundler and
 * no Node stand between a reader and what runs. It takes what JupyterLab and Notebook share (the cell model, CodeMirror)
 * and brings a language of its own: the YAML mode they ship takes the magic's line for YAML. The file's name carries the
 * version, because browsers keep old ones.
 */
(() => {
  'use strict';

  const MAGIC = /^\s*%%(?:pipeline|policy|plan|graph|run_pipeline_inline(?:_async)?)(?=[\s?]|$)/;
  const OUR_LINE = /^\s*(?:[\w.,\s[\]]+=\s*)?%(?:answer|context|define|draw|explain|flows|lesson|mcp|r1|rerun|resume|run_pipeline(?:_async)?|runs|step|tools|workers)\s/;
  const MIME = 'text/x-agf-magics';
  const FOLDED = 'agf-magics-error'; // in the metadata of the line that stands for an error

  /* ---- the language: one line of command, then YAML; a tokenizer over lines ---- */

  const WORD = /^(?:true|True|TRUE|false|False|FALSE)$/;
  const NULL = /^(?:null|Null|NULL|~)$/;
  const NUMBER = /^[-+]?(?:0x[\da-fA-F]+|0o[0-7]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\.inf|\.nan)$/;

  /* A plain scalar ends at ": ", at " #" and, between brackets, at one of ,[]{}. */
  const PLAIN = /^(?:[^\s:#]|:(?=\S)|(?<=\S)#)+(?:\s+(?:[^\s:#]|:(?=\S)|(?<=\S)#)+)*/;
  const PLAIN_IN_FLOW =
    /^(?:[^\s:#,[\]{}]|:(?=[^\s,[\]{}])|(?<=\S)#)+(?:\s+(?:[^\s:#,[\]{}]|:(?=[^\s,[\]{}])|(?<=\S)#)+)*/;

  /* Plain text has no colour, but it is a token: JupyterLab completes with the other words of a cell that begin with it. */
  const TEXT = 'content';

  const start = () => ({
    command: true, // still in the line of the magic
    magic: false, // its %%name has been read
    named: false, // what it defines has been named
    flow: 0, // how many { and [ are open
    quote: '', // the quote that is open, over lines
    parent: 0, // the column a block scalar must exceed
    block: -1, // that column, while in a block scalar
  });

  const quoted = (stream, state) => {
    for (let at = stream.next(); at; at = stream.next()) {
      if (at === '\\' && state.quote === '"') stream.next();
      else if (at === state.quote && !(at === "'" && stream.eat("'"))) {
        state.quote = '';
        return;
      }
    }
  };

  const commandToken = (stream, state) => {
    if (stream.eatSpace()) return null;
    if (!state.magic) {
      state.magic = true;
      stream.match(/^%%\w*/);
      return 'keyword';
    }
    if (stream.match(/^--?[A-Za-z][\w-]*/)) return 'operator';
    if (stream.match(/^\$[\w.]+/)) return 'variableName.special';
    if (stream.match(/^(?:"[^"]*"?|'[^']*'?)/)) return 'string';
    if (stream.match(/^[^\s=]+(?==)/)) return 'propertyName';
    if (stream.eat('=')) return 'punctuation';
    stream.match(/^[^\s]+/);
    if (state.named) return TEXT;
    state.named = true;
    return 'variableName.definition';
  };

  const key = (stream, state, column) => {
    const colon = state.flow ? /^\s*:(?=[\s,[\]{}]|$)/ : /^\s*:(?=\s|$)/;
    if (!stream.match(colon, false)) return false;
    state.parent = column;
    return true;
  };

  const yamlToken = (stream, state) => {
    if (stream.sol()) {
      if (state.block >= 0 && stream.indentation() > state.block) {
        stream.skipToEnd();
        return 'string';
      }
      state.block = -1;
      if (!state.quote && stream.match(/^(?:---|\.\.\.)(?=\s|$)/)) {
        state.flow = 0;
        return 'meta';
      }
    }
    const column = stream.column();
    if (state.quote) {
      quoted(stream, state);
      return 'string';
    }
    if (stream.eatSpace()) return null;
    if (stream.peek() === '#') {
      stream.skipToEnd();
      return 'comment';
    }
    if (!state.flow && stream.match(/^[-?](?=\s|$)/)) {
      state.parent = column;
      return 'punctuation';
    }
    if (!state.flow && stream.match(/^[|>][-+\d]*(?=\s*(?:#.*)?$)/)) {
      state.block = state.parent;
      return 'operator';
    }
    if (stream.match(/^[{[]/)) {
      state.flow += 1;
      return 'bracket';
    }
    if (state.flow && stream.match(/^[}\]]/)) {
      state.flow -= 1;
      return 'bracket';
    }
    if (stream.match(/^[:,](?=[\s,[\]{}"']|$)/)) return 'punctuation';
    if (stream.match(/^!\S*/)) return 'keyword';
    if (stream.match(/^[&*][^\s,[\]{}]+/)) return 'labelName';
    if (/["']/.test(stream.peek())) {
      state.quote = stream.next();
      quoted(stream, state);
      return !state.quote && key(stream, state, column) ? 'propertyName.definition' : 'string';
    }
    const plain = stream.match(state.flow ? PLAIN_IN_FLOW : PLAIN);
    if (!plain) {
      stream.next();
      return null;
    }
    if (key(stream, state, column)) return 'propertyName.definition';
    if (WORD.test(plain[0])) return 'bool';
    if (NULL.test(plain[0])) return 'atom';
    return NUMBER.test(plain[0]) ? 'number' : TEXT;
  };

  const token = (stream, state) => {
    if (!state.command) return yamlToken(stream, state);
    const style = commandToken(stream, state);
    if (stream.eol() && state.magic) state.command = false;
    return style;
  };

  const OPENS = /:\s*(?:[|>][-+\d]*)?\s*(?:\s#.*)?$/; // a key whose value is below it
  const DASHES = /^\s*(?:- +)*/;
  const IN_BRACKETS = /^\s*(?:- +)*(?:[^\s#{[][^#]*?:\s+)?[{[]/; // an element or a key whose value is in brackets
  const isText = (state) => state.flow || state.quote || state.block >= 0;
  const count = (text, signs) => (text.match(signs) ?? []).length;

  /* The line whose brackets end with this text, which is the beginning of a line. */
  const opening = (doc, line, before) => {
    let text = before;
    let open = 0;
    for (let { number } = line; ; text = doc.line(number).text) {
      open += count(text, /[}\]]/g) - count(text, /[{[]/g);
      number -= 1;
      if (open <= 0 || !number) return text;
    }
  };

  /* Where a dash at a column belongs: there, if a list may be there, else beside the dashes of the list around it. */
  const columnOfDash = (doc, line, column) => {
    let inside = Infinity;
    for (let number = line.number - 1; number; number--) {
      const { text } = doc.line(number);
      if (MAGIC.test(text) || /^(?:---|\.\.\.)/.test(text)) break;
      if (/^\s*(?:#|$)/.test(text)) continue;
      if (inside === Infinity && OPENS.test(text)) break;
      const [lead] = DASHES.exec(text);
      const dash = [...lead].findLastIndex((sign, at) => sign === '-' && at < inside && at <= column);
      if (dash >= 0) return dash;
      inside = Math.min(inside, text.search(/\S/));
    }
    return column;
  };

  /* Enter: under the key that this line opens, beside the keys it has, else as deep as it is; below an element that its
   * brackets end, where the next one begins. Written lines stay put; a dash that was just typed goes to its list. */
  const indent = (state, textAfter, context) => {
    const { doc } = context.state;
    const line = doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    if (!before.trim()) {
      const column = context.lineIndent(line.from);
      return textAfter === '- ' && !isText(state) ? columnOfDash(doc, line, column) : column;
    }
    if (MAGIC.test(before)) return 0;
    if (!isText(state) && /[}\]]\s*(?:\s#.*)?$/.test(before)) {
      const first = opening(doc, line, before);
      const dash = DASHES.exec(first)[0].lastIndexOf('-');
      if (dash >= 0 && IN_BRACKETS.test(first)) return dash;
    }
    const [lead] = /^\s*(?:- +)*(?=[^\s#][^#]*:(?:\s|$))|^\s*/.exec(before);
    const opens = OPENS.test(before) || /[{[]\s*$/.test(before);
    return lead.length + (opens ? context.unit : 0);
  };

  const support = ({ StreamLanguage, LanguageSupport, indentUnit }, { Prec }) =>
    new LanguageSupport(
      StreamLanguage.define({
        name: 'agf-magics',
        startState: start,
        token,
        indent,
        languageData: { commentTokens: { line: '#' }, indentOnInput: /^\s*- $/, closeBrackets: { brackets: ['(', '[', '{', '"', "'"] } },
      }),
      [Prec.highest(indentUnit.of('  '))],
    );

  /* ---- which cells have it: told by their text, at every change ---- */

  const follow = (notebook) => {
    const known = new WeakSet();
    const settle = (cell) => {
      const ours = /python/.test(notebook.codeMimetype) && MAGIC.test(cell.sharedModel.getSource());
      if (ours !== (cell.mimeType === MIME)) cell.mimeType = ours ? MIME : notebook.codeMimetype;
    };
    const watch = () => {
      for (const cell of notebook.model?.cells ?? []) {
        if (cell.type !== 'code' || known.has(cell)) continue;
        known.add(cell);
        cell.contentChanged.connect(settle);
        cell.mimeTypeChanged.connect(settle); // the notebook sets all cells to Python when the kernel says what it speaks
        settle(cell);
      }
    };
    const open = () => {
      watch();
      notebook.model?.cells.changed.connect(watch);
    };
    notebook.modelChanged.connect(open);
    open();
  };

  /* ---- problems: underlined a moment after the last key; the kernel reads the text and runs nothing ---- */

  const TARGET = 'agf-magics.problems';
  const PAUSE = 400; // milliseconds after the last key
  const CALM = 1200; // milliseconds after the last key in which the line of the cursor counts as half written
  const PATIENCE = 5000; // milliseconds for an answer
  const MOST_TEXT = 50000; // as in the kernel
  const COVERED = 4; // lines that a tooltip covers
  const CLIENT = crypto.getRandomValues(new Uint32Array(2)).join('-'); // an answer goes to all pages of a kernel

  const comms = new WeakMap(); // of a kernel: the promise of its comm, or of null: the extension is not loaded there
  const waiting = new Map(); // what is called with the answer to a request
  let requests = 0;

  const late = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds, null));

  /* The kernel registers the comm without announcing it; so a page that is loaded again finds it too. */
  const findComm = async (kernel) => {
    const [id] = Object.keys((await kernel.requestCommInfo({ target_name: TARGET })).content.comms ?? {});
    if (!id || kernel.hasComm(id)) return null;
    const comm = kernel.createComm(TARGET, id);
    comm.onMsg = ({ content: { data } }) => waiting.get(data.id)?.(data);
    // Without a subshell of its own a request waits for the cell that runs.
    if (kernel.supportsSubshells) await Promise.race([comm.subshellStarted, late(PATIENCE)]).catch(() => {});
    return comm;
  };

  /* All who ask while the comm is looked for wait for it. */
  const commOf = async (kernel) => {
    const finding = comms.get(kernel);
    const comm = await finding;
    if (finding && !comm?.isDisposed) return comm;
    if (comms.get(kernel) === finding) {
      if (kernel.status !== 'idle') return null; // it would answer after its cell
      comms.set(kernel, findComm(kernel).catch(() => null)); // the kernel restarts, or its connection is lost
    }
    return commOf(kernel);
  };

  /* The extension may have been loaded since. */
  const forgetMissing = async (kernel) => {
    const finding = comms.get(kernel);
    if ((await finding) === null && comms.get(kernel) === finding) comms.delete(kernel);
  };

  /* The answer of the kernel to a message; null: it came too late; undefined: the kernel was not asked. */
  const asked = async (kernel, message) => {
    const comm = await commOf(kernel);
    if (!comm || (kernel.status !== 'idle' && !comm.subshellId)) return undefined;
    const id = `${CLIENT}-${++requests}`;
    const answer = new Promise((done) => waiting.set(id, done));
    comm.send({ id, ...message });
    return Promise.race([answer, late(PATIENCE)]).finally(() => waiting.delete(id));
  };

  const element = (tag, text, name) => Object.assign(document.createElement(tag), { textContent: text, className: name ?? '' });

  const box = (problem) => {
    const node = element('div', '', 'agf-problem-box');
    node.append(element('b', problem.severity), ` ${problem.message} `, element('code', `[${problem.code}]`));
    if (problem.hint) node.append(element('div', problem.hint));
    return node;
  };

  const wave = (color) => ({ textDecoration: `underline wavy var(${color}) 1px`, textUnderlineOffset: '3px' });

  const problemExtension = (tracker, { StateField, StateEffect }, { Decoration, EditorView, ViewPlugin, hoverTooltip, closeHoverTooltips }) => {
    const isOurs = (state) => MAGIC.test(state.sliceDoc(0, 200));
    const found = StateEffect.define();
    const writers = new Set();

    const marks = StateField.define({
      create: () => Decoration.none,
      update: (set, transaction) => {
        if (transaction.docChanged) {
          // A mark is about text that a person now changes: it goes. The others move with their text.
          transaction.changes.iterChangedRanges((from, to) => {
            set = set.update({ filter: (start, end) => end < from || start > to });
          });
          set = isOurs(transaction.state) ? set.map(transaction.changes) : Decoration.none;
        }
        for (const effect of transaction.effects) {
          if (!effect.is(found)) continue;
          const size = transaction.state.doc.length;
          const fits = effect.value.filter(({ start, end }) => 0 <= start && start < end && end <= size);
          const mark = (problem) => Decoration.mark({ class: `agf-problem agf-${problem.severity}`, problem });
          set = Decoration.set(fits.map((problem) => mark(problem).range(problem.start, problem.end)), true);
        }
        return set;
      },
      provide: (field) => EditorView.decorations.from(field),
    });

    /* Of a cell as it was opened: the cells that register what it names may not have run yet. A name that is nearly one
     * that is known is a mistake all the same. */
    const untouched = (problem) => {
      if (!problem.code.startsWith('flow.unknown-')) return problem;
      return problem.hint.startsWith('did you mean ') ? { ...problem, severity: 'warning' } : null;
    };

    class Writer {
      constructor(view) {
        this.view = view;
        this.version = 0;
        this.wasEdited = this.isAsking = this.isTyping = false;
        this.problems = null; // of the present text; null: not known
        writers.add(this);
        this.schedule(); // the kernel of an opened notebook may have been there before
      }

      update(update) {
        if (!update.docChanged) {
          // The view takes no changes while it is told of one.
          if (this.isHeld && (update.selectionSet || update.focusChanged)) queueMicrotask(() => this.show());
          return;
        }
        this.version += 1;
        this.wasEdited = true;
        this.problems = null;
        this.isHeld = false;
        this.isTyping = update.transactions.some((one) => one.isUserEvent('input.type') || one.isUserEvent('delete'));
        clearTimeout(this.calm);
        this.calm = setTimeout(() => {
          this.isTyping = false;
          if (this.isHeld) this.show();
        }, CALM);
        this.schedule();
      }

      /* A problem in the line of the cursor waits: who types has written half a word, or has not closed a bracket yet. */
      show() {
        if (this.isClosed || !this.problems) return;
        const { hasFocus, state } = this.view;
        const line = this.isTyping && hasFocus ? state.doc.lineAt(state.selection.main.head) : { from: -1, to: -1 };
        const shown = this.problems.filter(({ start, end }) => line.to < start || end < line.from);
        this.isHeld = shown.length < this.problems.length;
        this.view.dispatch({ effects: found.of(shown) });
      }

      destroy() {
        clearTimeout(this.timer);
        clearTimeout(this.calm);
        writers.delete(this);
        this.isClosed = true;
      }

      get panel() {
        return tracker.find((panel) => panel.node.contains(this.view.dom));
      }

      schedule() {
        clearTimeout(this.timer);
        if (isOurs(this.view.state)) this.timer = setTimeout(() => this.ask(), PAUSE);
      }

      /* One request at a time, about the newest text. */
      async ask() {
        if (this.isAsking) return;
        const { version } = this;
        const text = this.view.state.doc.toString();
        const kernel = this.panel?.sessionContext.session?.kernel;
        let answer = null;
        this.isAsking = true;
        try {
          if (kernel && text.length <= MOST_TEXT) answer = await asked(kernel, { text });
        } catch (error) {
          console.debug('agf-magics: no problems', error); // the kernel restarts, or its connection is lost
        }
        this.isAsking = false;
        if (this.isClosed) return;
        this.isOwed = answer === undefined && kernel.status !== 'idle';
        const problems = answer?.problems ?? [];
        if (version !== this.version) this.schedule();
        else {
          this.problems = this.wasEdited ? problems : problems.map(untouched).filter(Boolean);
          this.show();
        }
      }
    }

    const writersOf = (notebook) => [...writers].filter(({ panel }) => panel?.content === notebook);

    // A cell that ran may have registered what another one names, or loaded the extension.
    const again = async (notebook) => {
      const kernel = writersOf(notebook)[0]?.panel.sessionContext.session?.kernel;
      if (kernel) await forgetMissing(kernel);
      for (const writer of writersOf(notebook)) writer.schedule();
    };

    // A cell that was edited while the kernel could not be asked, as while another client of it ran something.
    const askOwed = (notebook) => {
      for (const writer of writersOf(notebook)) if (writer.isOwed) writer.schedule();
    };

    // What the word is: a tool with its signature and its docstring, a key, a kind.
    const help = async (view, place) => {
      const panel = [...writers].find((writer) => writer.view === view)?.panel;
      const kernel = panel?.sessionContext.session?.kernel, word = view.state.wordAt(place), text = view.state.doc.toString();
      if (!kernel || !word || !isOurs(view.state) || text.length > MOST_TEXT) return null;
      const answer = await asked(kernel, { help: text, at: [...text.slice(0, place)].length });
      if (!answer?.text) return null;
      return { pos: word.from, end: word.to, above: true, create: () => ({ dom: element('div', answer.text, 'agf-problem-box') }) };
    };

    // Who types is shown nothing at the mouse: Shift-Tab shows the same text at the cursor.
    let isTyping = false;
    const keys = EditorView.domEventHandlers({
      mousemove: () => { isTyping = false; },
      keydown: ({ ctrlKey, metaKey }, view) => {
        if (ctrlKey || metaKey) return; // it copies the text that is shown
        isTyping = true;
        if (closeHoverTooltips) view.dispatch({ effects: closeHoverTooltips });
      },
    });

    // Whether a tooltip above the line of `place` hides at most as many underlined words as one below it.
    const hidesLess = (state, place) => {
      const { number, from, to } = state.doc.lineAt(place);
      const lineAt = (n) => state.doc.line(Math.max(1, Math.min(state.doc.lines, n)));
      const marked = (first, last) => {
        let count = 0;
        if (first < last) state.field(marks).between(first, last, () => { count++; });
        return count;
      };
      return marked(lineAt(number - COVERED).from, from - 1) <= marked(to + 1, lineAt(number + COVERED).to);
    };

    const hover = hoverTooltip((view, place) => {
      const here = [];
      view.state.field(marks).between(place, place, (from, to, { spec }) => { here.push({ from, to, problem: spec.problem }); });
      if (isTyping) return null;
      if (!here.length) return help(view, place).then((shown) => (isTyping ? null : shown), () => null);
      const dom = element('div', '');
      dom.append(...here.map(({ problem }) => box(problem)));
      return { pos: here[0].from, end: here[0].to, above: hidesLess(view.state, place), create: () => ({ dom }) };
    });

    const theme = EditorView.baseTheme({
      '.agf-error': wave('--jp-error-color1'),
      '.agf-warning': wave('--jp-warn-color1'),
      '.agf-problem-box': { padding: '4px 8px', maxWidth: '60em', whiteSpace: 'pre-wrap', font: 'var(--jp-ui-font-size1) var(--jp-ui-font-family)' },
      '.agf-problem-box code': { color: 'var(--jp-ui-font-color2)' },
      '.cm-tooltip.cm-tooltip-hover:has(.agf-problem-box)': {
        color: 'var(--jp-ui-font-color1)', background: 'var(--jp-layout-color1)', border: '1px solid var(--jp-border-color1)' },
    });
    const named = EditorView.editorAttributes.of((view) => (isOurs(view.state) ? { class: 'agf-cell' } : null));
    return { again, askOwed, extension: [marks, ViewPlugin.fromClass(Writer), keys, hover, theme, named] };
  };

  /* ---- completion: the kernel knows what fits at the cursor, and JupyterLab would add each word of the cell ---- */

  const leaveOutWords = (completers) => {
    const words = completers?.getProviders?.().get('CompletionProvider:context');
    const isApplicable = words?.isApplicable;
    if (!isApplicable) return;
    words.isApplicable = async (context) => {
      const { editor } = context;
      const line = editor?.getLine(editor.getCursorPosition().line) ?? '';
      const isOurs = OUR_LINE.test(line) || MAGIC.test(editor?.model.sharedModel.getSource() ?? '');
      return !isOurs && isApplicable.call(words, context);
    };
  };

  /* ---- a question that nobody can answer any more: its cell has ended, as by a time limit ---- */

  const closeQuestions = (_, { cell }) => {
    for (const box of cell.node.querySelectorAll('.jp-Stdin-input')) {
      box.disabled = true;
      box.value = '';
      box.placeholder = 'the run has ended';
    }
  };

  /* ---- what the explorer of a run asks of the page: a cell, a notice ---- */

  const LONGEST = 20000;
  const REST = 100; // milliseconds between two writings of a reply that arrives

  const openCells = (tracker, { NotebookActions }) => {
    document.addEventListener('agf-open-cell', (event) => {
      const code = event.detail?.code;
      const panel = tracker.find((one) => one.node.contains(event.target));
      if (!panel || typeof code !== 'string' || code.length > LONGEST) return;
      const place = panel.content.widgets.findIndex((cell) => cell.node.contains(event.target));
      if (place < 0) return;
      panel.content.activeCellIndex = place;
      NotebookActions.insertBelow(panel.content);
      panel.content.activeCell.model.sharedModel.setSource(code); // a person reads it and runs it
      event.preventDefault();
    });
  };

  /* The kernel has the texts of the cells as they ran last, and the numbers of these runs. */
  const tellCells = (tracker) => {
    document.addEventListener('agf-cells', ({ target, detail }) => {
      const panel = tracker.find((one) => one.node.contains(target));
      const cells = (panel?.content.widgets ?? []).filter(({ model }) => model.type === 'code');
      const texts = cells.map(({ model }) => [model.sharedModel.getId(), [model.sharedModel.getSource(), model.executionCount]]);
      if (detail) detail.cells = Object.fromEntries(texts.filter(([, [text]]) => text.length <= MOST_TEXT));
    });
  };

  /* A page that an earlier kernel has left: its button opens the run, if the extension is loaded in the kernel of now. */
  const offerRuns = async (panel) => {
    const kernel = panel.sessionContext.session?.kernel;
    const isLeft = (host) => !host.explorer && !host.querySelector(':scope > .agf-open');
    const hosts = () => [...panel.node.querySelectorAll('.agf-run[data-run]')].filter(isLeft);
    if (!kernel || !hosts().length) return;
    await forgetMissing(kernel);
    if (!(await commOf(kernel))) return;
    for (const host of hosts()) {
      const button = element('button', 'Open', 'agf-open');
      button.title = 'Open this run in the explorer';
      button.addEventListener('click', async () => {
        const mark = [...host.classList].find((name) => /^agf-[0-9a-f]{16}$/.test(name));
        const answer = await asked(kernel, { open: host.dataset.run, mark });
        button.title = answer ? answer.why : 'The kernel does not answer now';
        button.textContent = answer && !answer.why ? 'Open' : `Open: ${button.title}`;
      });
      host.prepend(button);
      // A page says that its run had not ended. The kernel of now knows what became of it.
      if (host.dataset.live) button.click();
    }
  };

  const ENDED = { error: 'failed', cancelled: 'was cancelled', interrupted: 'was interrupted', waiting: 'waited for an answer' };

  /* What became of the run of a cell, in order: each end of it, each `resume`, and `rerun`, after which another run is above. */
  const history = (ends) => {
    const words = ends.map((end, k) => ENDED[end] ?? `was resumed ${ends.indexOf(end) === k ? 'above' : 'again'}`);
    if (ends.at(-1) === 'rerun') return `It ${words.findLast((_, k) => ENDED[ends[k]])}; the run above began from a step of it.`;
    return `It ${words.length > 1 ? `${words.slice(0, -1).join(', ')}, and ` : ''}${words.at(-1)}.`;
  };

  /* The error of an attempt that was resumed is one line. */
  const foldErrors = (tracker) => {
    // `next`: what follows the ends that are known. The event can take back what it did.
    const fold = ({ target, detail }, next) => {
      const panel = tracker.find((one) => one.node.contains(target));
      const outputs = panel?.content.widgets.find((cell) => cell.node.contains(target))?.model.outputs;
      for (let i = 0; i < (outputs?.length ?? 0); i++) {
        const { type, metadata } = outputs.get(i), before = outputs.get(i).toJSON();
        const ends = type === 'error' ? next([]) : metadata?.[FOLDED] && next([metadata[FOLDED]].flat());
        if (!ends) continue;
        const text = history(ends);
        outputs.set(i, { output_type: 'display_data', metadata: { [FOLDED]: ends }, data: { 'text/plain': text, 'text/html': `<em>${text}</em>` } });
        detail.undo = () => outputs.set(i, before);
      }
    };
    // The run goes on, or another one is shown, of which the line says no more.
    document.addEventListener('agf-continued', (event) => {
      const { how, was } = event.detail ?? {};
      const end = ENDED[was] ? [was] : []; // not of a resumed run that is ok now
      if (how === 'resume' || how === 'rerun') fold(event, (ends) => {
        if (ends.at(-1) === 'rerun') return null;
        return [...ends, ...(ends.length ? ENDED[ends.at(-1)] ? [] : end : [end[0] ?? 'error']), how];
      });
    });
    // A run that was resumed has ended; a good end is no news.
    document.addEventListener('agf-ended', (event) => {
      const { status } = event.detail ?? {};
      if (ENDED[status]) fold(event, (ends) => (ends.at(-1) === 'resume' ? [...ends, status] : null));
    });
  };

  /* The text of a model is untrusted: an image would tell its address to another server. */
  const withoutImages = (html) => {
    const page = new DOMParser().parseFromString(html, 'text/html');
    for (const node of page.querySelectorAll('img, picture, video, audio, source, svg, object, iframe, style, link')) {
      node.replaceWith(node.getAttribute('alt') ?? '');
    }
    for (const node of page.querySelectorAll('[style], [background]')) {
      node.removeAttribute('style');
      node.removeAttribute('background');
    }
    return page.body.innerHTML;
  };

  /* What the end of an arriving text has only begun, emphasis or code, is closed: its signs do not stand there until the rest comes. */
  const closed = (text) => {
    if ((text.match(/^ {0,3}(?:```|~~~)/gm) ?? []).length % 2) return text; // in a block of code
    const whole = text.replace(/[*_`[\s]+$/, '');
    const paragraph = whole.slice(whole.lastIndexOf('\n\n') + 1);
    const isOpen = (sign) => paragraph.split(sign).length % 2 === 0;
    return whole + ['`', '**'].filter(isOpen).join('');
  };

  const writeMarkdown = (tracker) => {
    const newest = new WeakMap(); // of a node that is written: the text that it has at the end

    const rendered = async ({ rendermime }, text) => {
      const sanitizer = Object.create(rendermime.sanitizer);
      sanitizer.sanitize = (html, options) => withoutImages(rendermime.sanitizer.sanitize(html, options));
      const latexTypesetter = { typeset: () => {} }; // its styles do not reach the explorer, and a price has a $
      const renderer = rendermime.clone({ sanitizer, latexTypesetter }).createRenderer('text/markdown');
      await renderer.renderModel(rendermime.createModel({ data: { 'text/markdown': text }, trusted: false }));
      return renderer.node;
    };

    // One text of a node after the other, and between two of them the page has most of the time.
    const write = async (content, node) => {
      for (let text = null; text !== newest.get(node); ) {
        text = newest.get(node);
        const start = performance.now();
        try {
          node.replaceChildren(await rendered(content, text));
        } catch (error) {
          console.debug('agf-magics: a reply is not written', error);
        }
        await late(Math.max(REST, 4 * (performance.now() - start)));
      }
      newest.delete(node);
    };

    document.addEventListener('agf-markdown', (event) => {
      const { text, node, arriving } = event.detail ?? {};
      const panel = tracker.find((one) => one.node.contains(event.target));
      if (!panel || typeof text !== 'string' || text.length > LONGEST || !(node instanceof Element)) return;
      event.preventDefault();
      const isWriting = newest.has(node);
      newest.set(node, arriving ? closed(text) : text);
      if (!isWriting) write(panel.content, node);
    });
  };

  const showNotices = (app, { Notification }) => {
    if (!Notification || !app.hasPlugin?.('@jupyterlab/apputils-extension:notification')) return;
    document.addEventListener('agf-notice', (event) => {
      const { text, kind, go, choices, milliseconds } = event.detail ?? {};
      if (typeof text !== 'string') return;
      const type = ['success', 'warning', 'error'].includes(kind) ? kind : 'info';
      const answers = Array.isArray(choices) ? choices.map(({ label, callback }) => ({ label: String(label).slice(0, 40), callback })) : [];
      const actions = [...answers, ...(typeof go === 'function' ? [{ label: 'Show', callback: go }] : [])];
      const id = Notification.emit(text.slice(0, LONGEST), type, { autoClose: Number(milliseconds) || false, actions });
      event.detail.dismiss = () => Notification.dismiss(id);
      event.preventDefault();
    });
  };

  /* ---- style: on paper nothing scrolls; a completion with a text about it stays on one line ---- */

  const addStyle = () => {
    const style = document.createElement('style');
    const described = '.jp-Completer-item[title*=" · "]';
    style.textContent = `@media print {
      .jp-OutputArea-output [style*="overflow"] { max-height: none !important; overflow: visible !important; }
      .jp-OutputArea-output td, .jp-OutputArea-output th { overflow-wrap: anywhere; white-space: normal !important; }
    }
    ${described} .jp-Completer-typeExtended { white-space: nowrap; text-align: left; font-family: var(--jp-ui-font-family); }
    ${described} .jp-Completer-monogram { background: var(--jp-layout-color3); color: var(--jp-ui-font-color1); }`;
    document.head.append(style);
  };

  /* ---- what JupyterLab asks for: init with what it shares, then the plugin ---- */

  let scope = {};
  const newer = (a, b) => a.localeCompare(b, 'en', { numeric: true });
  const shared = async (name) => {
    const versions = scope[name] ?? {};
    const newest = Object.keys(versions).sort(newer).pop();
    if (!newest) throw new Error(`agf-magics: ${name} is not shared here; cells stay as they are`);
    return (await versions[newest].get())();
  };

  const plugin = async () => {
    const names = ['@jupyterlab/notebook', '@jupyterlab/codemirror', '@codemirror/language', '@codemirror/state', '@codemirror/view'];
    const [notebooks, editors, language, state, views] = await Promise.all(names.map(shared));
    const [utils, completer] = await Promise.all(['@jupyterlab/apputils', '@jupyterlab/completer'].map((name) => shared(name).catch(() => ({}))));
    return {
      id: 'agf-magics:cells',
      description: 'Shows the cells of the agf-magics magics as YAML and underlines their problems.',
      autoStart: true,
      optional: [completer.ICompletionProviderManager].filter(Boolean),
      requires: [notebooks.INotebookTracker, editors.IEditorLanguageRegistry, editors.IEditorExtensionRegistry],
      activate: (app, tracker, languages, extensions, completers) => {
        languages.addLanguage({
          name: 'agf-magics',
          mime: MIME,
          load: async () => {
            // An editor takes the language that was loaded last, not the one that was asked for last: let Python be first.
            await languages.getLanguage('text/x-ipython');
            return support(language, state);
          },
        });
        const problems = problemExtension(tracker, state, views);
        const factory = () => editors.EditorExtensionRegistry.createImmutableExtension(problems.extension);
        extensions.addExtension({ name: 'agf-magics:problems', factory });
        notebooks.NotebookActions.executed.connect((_, { notebook }) => problems.again(notebook));
        // JupyterLab's Tab indents on a blank line.
        const selector = '.jp-Notebook.jp-mod-editMode .agf-cell';
        app.commands.addKeyBinding({ command: 'completer:invoke-notebook', keys: ['Ctrl Space'], selector });
        notebooks.NotebookActions.executed.connect(closeQuestions);
        addStyle();
        openCells(tracker, notebooks);
        tellCells(tracker);
        writeMarkdown(tracker);
        foldErrors(tracker);
        showNotices(app, utils);
        app.restored.then(() => leaveOutWords(completers));
        const added = (panel) => {
          follow(panel.content);
          panel.sessionContext.statusChanged.connect((_, status) => {
            if (status !== 'idle') return;
            problems.askOwed(panel.content);
            offerRuns(panel).catch(() => {}); // the kernel may restart
          });
        };
        tracker.forEach(added);
        tracker.widgetAdded.connect((_, panel) => added(panel));
      },
    };
  };

  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB['agf-magics'] = {
    init: (given) => {
      scope = given;
    },
    get: async (name) => {
      if (name !== './extension') throw new Error(`agf-magics: no module ${name}`);
      const module = { __esModule: true, default: await plugin() };
      return () => module;
    },
  };
})();
