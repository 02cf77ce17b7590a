// Reports to the agent the values of sensitive headers of a run's requests and answers, so that they are scrubbed
// wherever else they stand: in the console, in an error. Runs in the processes of user code: plain CommonJS, no
// dependency, for every Node.js since 18 and for Bun. Its failures change nothing for user code.
'use strict'
const { subscribe } = require('node:diagnostics_channel')

/** `NAMED_VALUE_CHARS_MAX` of contract/definition-secrets.ts, which cannot be loaded here. */
const VALUE_CHARS_MAX = 66_560
/** Values of one process that are reported: more than a run may know, so that beyond them all of it is scrubbed. */
const VALUES_MAX = 5_001
const CHARS_MAX = 16 * 1024 * 1024 + VALUE_CHARS_MAX

/**
 * Watches the clients and servers of Node.js for headers that match `source`; returns what reports further ones, on
 * demand those of any name.
 */
module.exports = function watchHeaders(source, report) {
  const sensitive = source === undefined ? undefined : attempt(() => new RegExp(source))
  if (sensitive === undefined) return () => undefined
  const reported = new Set()
  let chars = 0
  const see = (name, values, isAny = false) => {
    if (
      !isAny &&
      !sensitive.test(
        String(name)
          .toLowerCase()
          .replace(/[-_. ]/g, ''),
      )
    )
      return
    for (const one of [values].flat()) {
      const value = attempt(() => String(one).slice(0, VALUE_CHARS_MAX))
      // What the agent ignores under one name may be sensitive under another.
      const key = isAny ? `${name}=${value}` : value
      const isOver = reported.size >= VALUES_MAX || chars >= CHARS_MAX
      if (value === undefined || isOver || reported.has(key)) continue
      reported.add(key)
      chars += value.length
      attempt(() => report(String(name), value))
    }
  }
  attempt(() => watchConnections(see))
  return see
}

function watchConnections(see) {
  const on = (channel, look) => subscribe(channel, (message) => attempt(() => look(message)))
  const seeAll = (headers) => {
    for (const [name, value] of Object.entries(headers)) see(name, value)
  }
  const seePairs = (list) => {
    for (let at = 0; at + 1 < list.length; at += 2) see(list[at], String(list[at + 1]))
  }
  const seeHead = (head) => {
    for (const line of String(head).split('\r\n')) {
      const colon = line.indexOf(':')
      if (colon > 0) see(line.slice(0, colon), line.slice(colon + 1).trim())
    }
  }
  // The head as it is sent: headers that are given as a list stand there alone.
  const seeRequest = ({ request }) => {
    seeAll(request.getHeaders())
    seeHead(request._header)
  }
  // Before there is a connection: what reaches nobody is in errors and the console all the same.
  on('http.client.request.created', seeRequest)
  on('http.client.request.start', seeRequest)
  on('http.client.response.finish', ({ response }) => seePairs(response.rawHeaders))
  on('http.server.request.start', ({ request }) => seePairs(request.rawHeaders))
  on('http.server.response.finish', ({ response }) => seeHead(response._header))
  // Of `fetch`, and of undici as a package: a list or, in older versions, lines; then the head as it is sent.
  on('undici:request:create', ({ request: { headers } }) => {
    if (Array.isArray(headers)) seePairs(headers)
    else seeHead(headers)
  })
  on('undici:client:sendHeaders', ({ headers }) => seeHead(headers))
  on('undici:request:headers', ({ response }) => seePairs(response.headers))
  for (const side of ['client', 'server'])
    for (const at of ['start', 'finish'])
      on(`http2.${side}.stream.${at}`, ({ headers }) => seeAll(headers))
}

function attempt(work) {
  try {
    return work()
  } catch {
    return undefined
  }
}
