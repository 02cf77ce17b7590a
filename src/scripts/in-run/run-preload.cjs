// Loaded first into the Node.js processes of user code: starts browsers by the launcher, and reports sensitive headers.
// Plain CommonJS, no dependency, for every Node.js since 18 and for Bun.
'use strict'
const { openSync, writeSync } = require('node:fs')
const watchChildren = require('./child-processes.cjs')
const watchHeaders = require('./header-watch.cjs')

const { VEDETTE_EVENTS, VEDETTE_HEADERS } = process.env
watchChildren()
// Open from the beginning: later, user code may have used up its descriptors, or put its own functions into `fs`.
let events
try {
  events = openSync(VEDETTE_EVENTS, 'a')
} catch {
  // With `--permission`, it may not be allowed.
}
/** Reports a header besides those of the clients and servers of Node.js. */
const seeHeader = watchHeaders(VEDETTE_HEADERS, (name, value) =>
  writeSync(events, `${JSON.stringify({ event: 'header', name, value })}\n`),
)

module.exports = { seeHeader }
