// Runs the extension LM Tools Bridge, unmodified, under a stub of the editor's API: node window.js BUNDLE CONFIG
// CONFIG is JSON: folders, workspaceFile, settings, tools (names of LM tools), diagnostics. Prints one line when it is
// active, and ends with its standard input.
'use strict';
const Module = require('node:module');
const path = require('node:path');
const [bundle, text] = process.argv.slice(2);
const config = JSON.parse(text);

class Disposable {
  constructor(call) { this.dispose = call || (() => {}); }
}
class Uri {
  static file(name) { return new Uri(name); }
  static parse(name) { return new Uri(name.replace(/^file:\/\//, '')); }
  constructor(name) { this.scheme = 'file'; this.fsPath = name; this.path = name; this.authority = ''; }
  toString() { return `file://${this.fsPath}`; }
  with() { return this; }
}
class Part { constructor(value) { this.value = value; } }
class DataPart { constructor(data, mimeType) { this.data = data; this.mimeType = mimeType; } }
class Result { constructor(content) { this.content = content; } }
class RelativePattern { constructor(base, pattern) { this.base = base; this.pattern = pattern; } }

const folders = config.folders.map((name, index) => ({ uri: Uri.file(name), name: path.basename(name), index }));
const nothing = () => new Disposable();
const item = () => ({ show() {}, hide() {}, dispose() {}, text: '' });
const channel = () => {
  const log = (...said) => { if (config.verbose) process.stderr.write(`${said.join(' ')}\n`); };
  return { appendLine: log, append: log, info: log, warn: log, error: log, debug: log, trace: log, show: log, clear: log, dispose: log };
};
const watcher = () => ({ onDidCreate: nothing, onDidChange: nothing, onDidDelete: nothing, dispose() {} });
const position = (line, character) => ({ line, character });

const diagnostics = () => Object.entries(config.diagnostics || {}).map(([name, items]) => [
  Uri.file(name),
  items.map((one) => ({
    severity: one.severity, message: one.message, source: one.source, code: one.code, tags: [],
    range: { start: position(one.line, one.from), end: position(one.line, one.to) },
  })),
]);

const tools = (config.tools || []).map((name) => ({
  name,
  description: `The tool ${name}.`,
  tags: [],
  inputSchema: { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] },
}));

const known = {
  version: '1.104.0',
  Disposable, Uri, RelativePattern,
  LanguageModelTextPart: Part, LanguageModelDataPart: DataPart, LanguageModelPromptTsxPart: Part, LanguageModelToolResult: Result,
  ConfigurationTarget: { Global: 1, Workspace: 2, WorkspaceFolder: 3 },
  StatusBarAlignment: { Left: 1, Right: 2 },
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  DiagnosticTag: { Unnecessary: 1, Deprecated: 2 },
  ProgressLocation: { Notification: 15, Window: 10 },
  QuickPickItemKind: { Separator: -1, Default: 0 },
  ViewColumn: { Active: -1, One: 1 },
  TaskScope: { Global: 1, Workspace: 2 },
  TaskGroup: { Build: { id: 'build' }, Test: { id: 'test' } },
  env: { sessionId: config.sessionId || 'session-of-a-test', openExternal: async () => true, language: 'en', appName: 'stub' },
  extensions: { getExtension: () => undefined, all: [], onDidChange: nothing },
  commands: { registerCommand: nothing, executeCommand: async () => undefined },
  languages: {
    getDiagnostics: (uri) => {
      const all = diagnostics();
      return uri ? (all.find(([one]) => one.fsPath === uri.fsPath) || [uri, []])[1] : all;
    },
    onDidChangeDiagnostics: nothing,
  },
  lm: {
    tools,
    invokeTool: async (name, options) => new Result([
      new Part(`${name} got ${JSON.stringify(options.input)}`),
      new DataPart(Buffer.from(JSON.stringify({ tool: name, input: options.input })), 'application/json; charset=utf-8'),
    ]),
    onDidChangeTools: nothing,
  },
  tasks: { fetchTasks: async () => [], executeTask: async () => undefined, onDidEndTask: nothing },
  debug: { startDebugging: async () => false },
  window: {
    createOutputChannel: channel, createStatusBarItem: item, createWebviewPanel: () => { throw new Error('no panels'); },
    showInformationMessage: async () => undefined, showWarningMessage: async () => undefined,
    showErrorMessage: async () => undefined, showQuickPick: async () => undefined, showTextDocument: async () => undefined,
    withProgress: async (_, work) => work({ report() {} }, { isCancellationRequested: false, onCancellationRequested: nothing }),
    onDidChangeActiveTextEditor: nothing, activeTextEditor: undefined, onDidChangeWindowState: nothing,
  },
  workspace: {
    workspaceFolders: folders,
    workspaceFile: config.workspaceFile ? Uri.file(config.workspaceFile) : undefined,
    name: folders.length ? folders[0].name : undefined,
    isTrusted: true,
    textDocuments: [],
    getWorkspaceFolder: (uri) => folders.find((one) => uri.fsPath === one.uri.fsPath || uri.fsPath.startsWith(one.uri.fsPath + path.sep)),
    getConfiguration: (section) => {
      const key = (name) => (section ? `${section}.${name}` : name);
      const settings = config.settings || {};
      return {
        get: (name, fallback) => (key(name) in settings ? settings[key(name)] : fallback),
        has: (name) => key(name) in settings,
        inspect: (name) => ({ key: key(name), globalValue: settings[key(name)] }),
        update: async () => undefined,
      };
    },
    fs: {
      readFile: async (uri) => require('node:fs').promises.readFile(uri.fsPath),
      stat: async (uri) => {
        const found = await require('node:fs').promises.stat(uri.fsPath);
        return { type: found.isDirectory() ? 2 : 1, size: found.size, mtime: found.mtimeMs, ctime: found.ctimeMs };
      },
    },
    openTextDocument: async (uri) => {
      const lines = require('node:fs').readFileSync(uri.fsPath, 'utf8').split('\n');
      return { uri, lineCount: lines.length, lineAt: (line) => ({ text: lines[line] }), getText: () => lines.join('\n') };
    },
    findFiles: async () => [],
    asRelativePath: (uri) => (uri.fsPath || uri),
    createFileSystemWatcher: watcher,
    onDidChangeWorkspaceFolders: nothing, onDidChangeConfiguration: nothing, onDidGrantWorkspaceTrust: nothing,
    onDidSaveTextDocument: nothing, onDidOpenTextDocument: nothing, onDidCloseTextDocument: nothing,
  },
};

const load = Module._load;
Module._load = function (name, ...rest) {
  return name === 'vscode' ? known : load.call(this, name, ...rest);
};
process.on('unhandledRejection', (fault) => process.stderr.write(`${fault && fault.stack}\n`));

const extension = require(path.resolve(bundle));
const memory = () => ({ get: (_, fallback) => fallback, update: async () => undefined, keys: () => [] });
const here = path.dirname(path.resolve(bundle));
const context = {
  subscriptions: [], extensionPath: here, extensionUri: Uri.file(here), globalState: memory(), workspaceState: memory(),
  globalStorageUri: Uri.file(path.join(here, 'storage')), storageUri: Uri.file(path.join(here, 'storage')), logUri: Uri.file(here),
  extension: { packageJSON: { version: config.version || '0.0.0', homepage: '' }, id: 'jiangxiaoxu.lm-tools-bridge' },
  asAbsolutePath: (name) => path.join(here, name), secrets: { get: async () => undefined, store: async () => undefined },
};
Promise.resolve(extension.activate(context)).then(() => process.stdout.write('active\n'));
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
