// Reports to the agent the values of sensitive headers of a run's requests and answers, so that they are scrubbed
// wherever else they stand: in the console, in an error. Runs in the processes of user code: plain CommonJS, no
// dependency, for every Node.js since 18 and for Bun. Its failures change nothing for user code.
'use strict'
const { subscribe } = require('node:diagnostics_channel')

/** `NAMED_VALUE_CHARS_MAX` of contract/definition-secrets.ts, which cannot be loaded here. */
const VALUE_CHARS_MAX = 66_560
/**
 * Values of one process that are reported; then one without a name says that there are more. The agent knows less of
 * a value that has many cookies of which one changes.
 */
const VALUES_MAX = 50_000
/** Shorter values are no secrets by themselves: `ECHO_CHARS_MIN` there. */
const VALUE_CHARS_MIN = 6
const CHARS_MAX = 32 * 1024 * 1024

/**
 * Watches the clients and servers of Node.js for headers that match `source`; returns what reports further ones, on
 * demand those of any name.
 */
module.exports = function watchHeaders(source, report) {
  const sensitive = source === undefined ? undefined : attempt(() => new RegExp(source))
  if (sensitive === undefined) return () => undefined
  const reported = new Set()
  let chars = 0
  let isOver = false
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
      if (value === undefined || (!isAny && value.length < VALUE_CHARS_MIN)) continue
      if (isOver || reported.has(key)) continue
      isOver = reported.size >= VALUES_MAX || chars >= CHARS_MAX
      if (isOver) {
        attempt(() => report('', ''))
        return
      }
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
  const seePairs = (list) => {
    for (let at = 0; at + 1 < list.length; at += 2) see(list[at], textOf(list[at + 1]))
  }
  const seeAll = (headers) => {
    if (Array.isArray(headers)) return seePairs(headers)
    for (const [name, value] of Object.entries(headers)) see(name, value)
  }
  const seeHead = (head) => {
    for (const line of String(head).split('\r\n')) {
      const colon = line.indexOf(':')
      if (colon > 0) see(line.slice(0, colon), line.slice(colon + 1).trim())
    }
  }
  // Every head that is received and sent, also of an upgrade and of trailers, of which diagnostics channels have some.
  const { IncomingMessage, OutgoingMessage, ServerResponse } = require('node:http')
  after(IncomingMessage.prototype, '_addHeaderLines', (_, pairs) => seePairs(pairs))
  after(OutgoingMessage.prototype, '_storeHeader', ({ _header }) => seeHead(_header))
  after(OutgoingMessage.prototype, 'addTrailers', ({ _trailer }) => seeHead(_trailer))
  after(ServerResponse.prototype, 'writeEarlyHints', (_, hints) => seeAll(hints))
  // Before it is sent: what reaches nobody is in errors and the console all the same.
  on('http.client.request.created', ({ request }) => seeAll(request.getHeaders()))
  // Of `fetch`, and of undici as a package: a list or, in older versions, lines; then the head as it is sent.
  on('undici:request:create', ({ request: { headers } }) => {
    if (Array.isArray(headers)) seePairs(headers)
    else seeHead(headers)
  })
  on('undici:client:sendHeaders', ({ headers }) => seeHead(headers))
  on('undici:request:headers', ({ response }) => seePairs(response.headers))
  on('undici:request:trailers', ({ trailers }) => seePairs(trailers))
  on('undici:websocket:open', ({ handshakeResponse }) => seeAll(handshakeResponse.headers))
  for (const side of ['client', 'server'])
    for (const at of ['start', 'finish'])
      on(`http2.${side}.stream.${at}`, ({ headers }) => seeAll(headers))
}

/** Calls `look` with the owner and the arguments after each call of a method. */
function after(prototype, name, look) {
  const own = prototype[name]
  if (typeof own !== 'function') return
  prototype[name] = function (...given) {
    const made = Reflect.apply(own, this, given)
    attempt(() => look(this, ...given))
    return made
  }
}

/** As `fetch` hands them out; they may be bytes. */
function textOf(value) {
  return Buffer.isBuffer(value) ? value.toString('latin1') : String(value)
}

function attempt(work) {
  try {
    return work()
  } catch {
    return undefined
  }
}
