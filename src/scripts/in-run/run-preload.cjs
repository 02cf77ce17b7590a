// Loaded first into the Node.js processes of user code: starts browsers by the launcher, and reports sensitive headers.
// Plain CommonJS, no dependency, for every Node.js since 18 and for Bun.
'use strict'
const { appendFileSync } = require('node:fs')
const startByLauncher = require('./browser-launches.cjs')
const watchHeaders = require('./header-watch.cjs')

const { VEDETTE_EVENTS, VEDETTE_HEADERS, NODE_OPTIONS = '' } = process.env
// For what this process starts, where something else took its place.
if (!NODE_OPTIONS.includes(__dirname))
  process.env.NODE_OPTIONS = `--require "${__filename}" ${NODE_OPTIONS}`
startByLauncher()
/** Reports a header besides those of the clients and servers of Node.js. */
const seeHeader = watchHeaders(VEDETTE_HEADERS, (name, value) =>
  appendFileSync(VEDETTE_EVENTS, `${JSON.stringify({ event: 'header', name, value })}\n`),
)

module.exports = { seeHeader }
