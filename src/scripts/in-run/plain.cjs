// Runs a script that is no test: its own code from top to bottom, as `node script.js` would, and reports
// the error that ended it to the agent. Plain CommonJS, for every Node.js since 18.
'use strict'
const { spawnSync } = require('node:child_process')
const { appendFileSync, readFileSync } = require('node:fs')
const Module = require('node:module')
const path = require('node:path')
const vm = require('node:vm')
const { pathToFileURL } = require('node:url')
const describeThrown = require('./thrown.cjs')

process.on('uncaughtExceptionMonitor', (error) => {
  const { isParsed, ...thrown } = describeThrown(error)
  try {
    const place = isParsed ? {} : placeOf(thrown.stack)
    const event = { event: 'script-error', ...thrown, ...place }
    appendFileSync(process.env.VEDETTE_EVENTS, `${JSON.stringify(event)}\n`)
  } catch {
    // The exit code says that it failed; the output says why.
  }
})

const script = process.argv[2]
process.argv.splice(1, 2, script)
const mixed = mixedCode()
if (mixed === undefined) void import(pathToFileURL(script).href)
else void mixed()

/**
 * A script that uses both `require` and `await` outside of functions is neither a CommonJS nor an ECMAScript
 * module: it runs as CommonJS in an async function. Undefined for all other code, which Node.js takes itself.
 */
function mixedCode() {
  if (!script.endsWith('.js') && !script.endsWith('.cjs')) return undefined
  const source = readFileSync(script, 'utf8')
    .replace(/^\uFEFF/, '')
    .replace(/^#!/, '//')
  if (!/\bawait\b/.test(source) || typeof compiled('', source) === 'function') return undefined
  const run = compiled('async ', source)
  if (typeof run !== 'function') {
    if (/^\s*(?:import|export)\b|\bimport\.meta\b/m.test(source)) return undefined
    // What Node.js would say is that there is no `await` in CommonJS, which is not what is wrong.
    throw run
  }
  const module = new Module(script, null)
  const folder = path.dirname(script)
  Object.assign(module, { filename: script, paths: Module._nodeModulePaths(folder) })
  return () => run(module.exports, Module.createRequire(script), module, script, folder)
}

/** The code as a function, with all its lines and columns in their places; the error where it cannot be read. */
function compiled(kind, source) {
  const head = `(${kind}function (exports, require, module, __filename, __dirname) {`
  const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER
  const options = { filename: script, columnOffset: -head.length }
  if (importModuleDynamically !== undefined) Object.assign(options, { importModuleDynamically })
  try {
    return new vm.Script(`${head}${source}\n})`, options).runInThisContext()
  } catch (error) {
    return error
  }
}

/** Where code cannot be read. Of ECMAScript modules, Node.js says it on its own output alone. */
function placeOf(stack) {
  const found = markedPlace(stack)
  if (found !== undefined || !stack.startsWith('SyntaxError')) return found ?? {}
  const env = { ...process.env, NODE_OPTIONS: '' }
  const options = { env, encoding: 'utf8', timeout: 10_000 }
  return markedPlace(spawnSync(process.execPath, ['--check', script], options).stderr ?? '') ?? {}
}

/** `file:line`, the line itself, and a mark below the place. */
function markedPlace(text) {
  const found = /^(?:file:\/\/)?(\/.*):(\d+)\n.*\n([ \t]*)\^/m.exec(text)
  if (found === null) return undefined
  const [, file, line, before] = found
  return { file: path.relative(process.cwd(), file), line: Number(line), column: before.length + 1 }
}
