// Loaded first into the Node.js processes of user code: starts browsers by the launcher, and reports sensitive headers.
// Plain CommonJS, no dependency, for every Node.js since 18 and for Bun.
'use strict'
const { appendFileSync } = require('node:fs')
const watchChildren = require('./child-processes.cjs')
const watchHeaders = require('./header-watch.cjs')

const { VEDETTE_EVENTS, VEDETTE_HEADERS } = process.env
watchChildren()
/** Reports a header besides those of the clients and servers of Node.js. */
const seeHeader = watchHeaders(VEDETTE_HEADERS, (name, value) =>
  appendFileSync(VEDETTE_EVENTS, `${JSON.stringify({ event: 'header', name, value })}\n`),
)

module.exports = { seeHeader }
