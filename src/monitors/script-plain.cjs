// Runs a script that is no test: its own code from top to bottom, as `node script.js` would, and tells the
// agent of the error that ended it. Plain CommonJS, for every Node.js since 18.
'use strict'
const { appendFileSync } = require('node:fs')
const { pathToFileURL } = require('node:url')
const { inspect } = require('node:util')

const TEXT_CHARS_MAX = 16_384
const MISSING = new Set([
  'MODULE_NOT_FOUND',
  'ERR_MODULE_NOT_FOUND',
  'ERR_PACKAGE_PATH_NOT_EXPORTED',
])

process.on('uncaughtExceptionMonitor', (error) => {
  const [message, stack] = [error?.message ?? error, error?.stack ?? ''].map((one) =>
    (typeof one === 'string' ? one : inspect(one)).slice(0, TEXT_CHARS_MAX),
  )
  const isParsed = !(error instanceof SyntaxError) || stack.includes('at JSON.parse')
  const loaded = isParsed && !MISSING.has(error?.code)
  try {
    const event = { event: 'script-error', message, stack, loaded }
    appendFileSync(process.env.VEDETTE_EVENTS, `${JSON.stringify(event)}\n`)
  } catch {
    // The exit code says that it failed; the output says why.
  }
})

const script = process.argv[2]
process.argv.splice(1, 2, script)
void import(pathToFileURL(script).href)
