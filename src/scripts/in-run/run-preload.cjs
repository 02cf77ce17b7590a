// Loaded first into the Node.js processes of user code: starts browsers by the launcher, and reports sensitive headers.
// Plain CommonJS, no dependency, for every Node.js since 18 and for Bun.
'use strict'
const { appendFileSync } = require('node:fs')
const startByLauncher = require('./browser-launches.cjs')
const watchHeaders = require('./header-watch.cjs')

startByLauncher()
/** Reports a header besides those of the clients and servers of Node.js. */
const seeHeader = watchHeaders(process.env.VEDETTE_HEADERS, (name, value) =>
  appendFileSync(
    process.env.VEDETTE_EVENTS,
    `${JSON.stringify({ event: 'header', name, value })}\n`,
  ),
)

module.exports = { seeHeader }
