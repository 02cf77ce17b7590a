// Runs the set-up and the tear-down script of an API monitor, one after the other in one process: gives them
// `request` and `response`, and reports to the agent what they made of them. Plain CommonJS, no dependency, for every
// Node.js since 18.
'use strict'
const fs = require('node:fs')
const Module = require('node:module')
const path = require('node:path')
const describeThrown = require('./thrown.cjs')
const watchHeaders = require('./header-watch.cjs')

const PAIRS_MAX = 200
/** In front of a script's first line. */
const HEAD = 'return (async () => {'

// As they are now, whatever scripts make of them.
const { writeSync } = fs
const { parse, stringify } = JSON
const outputs = [process.stdout, process.stderr].map((one) => one.write.bind(one))

const runFolder = path.join(__dirname, '../../..')
const project = path.join(runFolder, 'project')
const modules = path.join(runFolder, 'node_modules')
const exit = process.exit.bind(process)
// With these modules Node.js has taken the proxy up. A client that took it up besides would ask it for what it
// does not do, such as https: without a tunnel.
for (const name of ['node:http', 'node:https']) require(name)
const proxies = parse(process.env.VEDETTE_PROXIES ?? '{}')
for (const [name, value] of Object.entries(proxies)) {
  if (process.env[name] === value) delete process.env[name]
}
delete process.env.VEDETTE_PROXIES
const see = watchHeaders(process.env.VEDETTE_HEADERS, (name, value) =>
  report({ step: 'header', name, value }),
)
delete process.env.VEDETTE_HEADERS
const begunWith = { ...process.env }
const values = { request: undefined, response: undefined }
/** Scripts that run as they are written. */
const plain = new Set()

for (const name of Object.keys(values)) {
  const set = (value) => (values[name] = value)
  Object.defineProperty(globalThis, name, { get: () => values[name], set, enumerable: true })
}

process.argv.splice(1, 1, project)
process.on('uncaughtExceptionMonitor', (error) => report({ step: 'crash', error: errorOf(error) }))
process.on('exit', () => {
  seeNamed()
  report({ step: 'exit' })
})
process.once('SIGTERM', () => exit(143))
for (const kind of ['.js', '.mjs', '.ts', '.mts', '.cts', '.tsx']) loadWith(kind)

let rest = ''
process.stdin.setEncoding('utf8')
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\n')
  rest = lines.pop()
  for (const line of lines) void runStep(parse(line))
})
// Whatever a script has left running.
process.stdin.on('end', () => exit(0))
report({ step: 'ready' })

async function runStep({ step, file, bytesMax, request, response }) {
  Object.assign(values, { request, response })
  try {
    await run(path.join(project, file))
    await written()
    const made =
      step === 'set-up' ? { request: requestOf(values.request), ...variables() } : answerOf()
    seeNamed()
    report({ step, ...made }, bytesMax)
  } catch (error) {
    await written()
    seeNamed()
    report({ step, error: errorOf(error) })
  }
}

/** Reports what scripts have put under sensitive names, also where they fail or end the process. */
function seeNamed() {
  const { request, response } = values
  for (const given of [
    () => request.headers,
    () => request.queryParameters,
    () => new URL(request.url).searchParams,
    () => response.headers,
  ]) {
    try {
      for (const [name, value] of entriesOf(given())) see(name, value)
    } catch {
      // There is none, or a getter of the script has thrown.
    }
  }
  // The agent knows which of its own are secret. Others would use up the number that is reported.
  for (const [name, value] of Object.entries(variables().variables))
    see(name, value, Object.hasOwn(begunWith, name))
}

/** Flushes what scripts wrote, so that the agent has it before it receives the report of their end. */
function written() {
  return Promise.all(outputs.map((write) => new Promise((resolve) => write('', resolve))))
}

/** As if it stood in an async function: it may use `await` and `return`; a function that it exports is called. */
async function run(file) {
  const script = new Module(file, null)
  script.filename = file
  script.paths = Module._nodeModulePaths(path.dirname(file))
  await begin(script, fs.readFileSync(file, 'utf8'))
  const made = script.exports?.default ?? script.exports
  if (typeof made === 'function') await made()
}

function begin(script, text) {
  const compile = (code) => script._compile(`${HEAD}${code}\n})()`, script.filename, 'commonjs')
  // What only looks like a comparison in JavaScript.
  const isTyped = /\.[cm]?tsx?$/.test(script.filename) && /\w<[^<>()=;]+>\(/.test(text)
  if (isTyped) return compile(transpiled(text, script.filename))
  try {
    // Rejects, and does not throw, for what the script itself does.
    const running = compile(text)
    plain.add(script.filename)
    return running
  } catch {
    return compile(transpiled(text, script.filename))
  }
}

/** TypeScript and ES modules as CommonJS, by what the runtime's Playwright brings for that. */
function transpiled(text, file) {
  process.setSourceMapsEnabled(true)
  // Its data on browsers is old at some time, which says nothing here.
  process.env.BROWSERSLIST_IGNORE_OLD_DATA = 'true'
  const babel = require(path.join(modules, 'playwright/lib/transform/babelBundle.js'))
  delete process.env.BROWSERSLIST_IGNORE_OLD_DATA
  // Until 1.48 it got a flag for TypeScript; since then it looks at the file's name.
  const kind = babel.babelParse === undefined ? [/\.[cm]?tsx?$/.test(file)] : []
  return babel.babelTransform(text, file, ...kind, false, [], []).code
}

/** Files of the project may be ES modules and TypeScript, too. */
function loadWith(kind) {
  const load = Module._extensions[kind]
  Module._extensions[kind] = (module, file) => {
    const isOwn = file.startsWith(project + path.sep) && !file.includes('/node_modules/')
    const text = isOwn ? fs.readFileSync(file, 'utf8') : ''
    const isForeign = isOwn && (kind !== '.js' || /^\s*(?:import|export)\b/m.test(text))
    if (isForeign) module._compile(transpiled(text, file), file, 'commonjs')
    else (load ?? Module._extensions['.js'])(module, file)
  }
}

function requestOf(given) {
  if (typeof given !== 'object' || given === null) throw new TypeError('request is not an object')
  const { method, url, body, headers, queryParameters } = given
  return {
    method: textOf(method, 'request.method'),
    url: textOf(url instanceof URL ? url.href : url, 'request.url'),
    body: bodyOf(body, 'request.body'),
    headers: pairsOf(headers, 'request.headers'),
    queryParameters: pairsOf(queryParameters, 'request.queryParameters'),
  }
}

function answerOf() {
  const { response } = values
  if (typeof response !== 'object' || response === null) {
    throw new TypeError('response is not an object')
  }
  const { statusCode, body, headers } = response
  return {
    response: {
      statusCode,
      body: bodyOf(body, 'response.body'),
      headers: pairsOf(headers, 'response.headers'),
    },
  }
}

/** What the script has changed in its environment. */
function variables() {
  const changed = Object.entries(process.env).filter(([name, value]) => begunWith[name] !== value)
  const removed = Object.keys(begunWith).filter((name) => process.env[name] === undefined)
  return { variables: Object.fromEntries(changed), removed }
}

function textOf(value, what) {
  if (typeof value !== 'string') throw new TypeError(`${what} is not a string`)
  return value
}

/** An object becomes its JSON. */
function bodyOf(value, what) {
  if (value === undefined || value === null) return ''
  if (typeof value !== 'object') return String(value)
  if (ArrayBuffer.isView(value)) throw new TypeError(`${what} is not a string`)
  return stringify(value)
}

/** Names with their values: a text, or a list of them; a name without a value is none. */
function pairsOf(given, what) {
  const pairs = entriesOf(given).flatMap(([name, value]) =>
    [value].flat().map((one) => [name, one]),
  )
  const present = pairs.filter(([, value]) => value !== undefined && value !== null)
  if (present.length > PAIRS_MAX) throw new RangeError(`${what} has more than ${PAIRS_MAX} entries`)
  return present.map(([name, value]) => {
    if (typeof value !== 'object' && typeof value !== 'function') return [name, String(value)]
    throw new TypeError(`${what}[${JSON.stringify(name)}] is not a string`)
  })
}

function entriesOf(given) {
  const isList = given instanceof Headers || given instanceof URLSearchParams
  return isList ? [...given] : Object.entries(given ?? {})
}

function errorOf(error) {
  const { message, loaded, stack } = describeThrown(error)
  return { message, loaded, ...placeIn(stack) }
}

/** Where in the script, as its author counts. */
function placeIn(stack) {
  const at = stack.indexOf(project)
  const found = at < 0 ? null : /^([^:\n]+):(\d+)(?::(\d+))?/.exec(stack.slice(at))
  if (found === null) return {}
  const [line, column = 1] = found
    .slice(2)
    .map((one) => (one === undefined ? undefined : Number(one)))
  const shift = line === 1 && plain.has(found[1]) ? HEAD.length : 0
  // Below the folder that each of the scripts has for itself.
  const file = path.relative(project, found[1]).split(path.sep).slice(1).join('/')
  return { file, line, column: Math.max(1, column - shift) }
}

function report(message, bytesMax = Infinity) {
  const line = Buffer.from(`${stringify(message)}\n`)
  if (line.length > bytesMax) {
    throw new RangeError(`the result of the script is larger than ${bytesMax} bytes as JSON`)
  }
  for (let at = 0; at < line.length;) at += writeSync(3, line, at)
}
