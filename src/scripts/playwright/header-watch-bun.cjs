// Watches the clients of Bun, which publish on no diagnostics channel. Like header-watch.cjs it runs in the processes
// of user code: plain CommonJS, no dependency; its failures change nothing.
'use strict'

/**
 * `see(name, values)` is called with every header. It must run before user modules are loaded: those that
 * import functions by name get what stands there then.
 */
module.exports = function watchBun(see, attempt) {
  const seeAll = (headers) => {
    for (const [name, value] of pairsOf(headers)) see(name, value)
  }
  const watchFetch = (fetch) => watchedFetch(fetch, seeAll, attempt)
  globalThis.fetch = watchFetch(globalThis.fetch)
  attempt(() => watchRequests(require('node:http'), seeAll, attempt))
  attempt(() => watchSessions(require('node:http2'), seeAll, attempt))
  attempt(() => {
    const undici = require('undici')
    for (const module of new Set([undici, undici.default])) {
      module.fetch = watchFetch(module.fetch)
      module.request = watchedRequest(module.request, seeAll, attempt)
    }
  })
}

/** Of an object, a list of names and values in turn, a list of pairs, or what can be gone through. */
function pairsOf(headers) {
  if (headers === undefined || headers === null) return []
  if (typeof headers.getSetCookie === 'function') {
    return [...headers, ['set-cookie', headers.getSetCookie()]]
  }
  // What can be gone through only once is left to the request.
  if (typeof headers.next === 'function') return []
  if (typeof headers[Symbol.iterator] !== 'function') return Object.entries(headers)
  const list = [...headers]
  if (Array.isArray(list[0])) return list
  return list.flatMap((name, at) => (at % 2 === 0 ? [[name, list[at + 1]]] : []))
}

function watchedFetch(fetch, seeAll, attempt) {
  const watched = async (...given) => {
    attempt(() => {
      const [input, init] = given
      if (input instanceof Request) seeAll(input.headers)
      seeAll(init?.headers)
    })
    const response = await fetch(...given)
    attempt(() => seeAll(response.headers))
    return response
  }
  return Object.assign(watched, fetch)
}

/** Every request emits events to its own listeners, and by then its headers are set. */
function watchRequests({ ClientRequest }, seeAll, attempt) {
  const { emit } = ClientRequest.prototype
  ClientRequest.prototype.emit = function (event, ...given) {
    attempt(() => {
      seeAll(this.getHeaders())
      if (event === 'response') seeAll(given[0].rawHeaders)
    })
    return emit.call(this, event, ...given)
  }
}

/** Its class has no name outside: a session that connects to nothing shows it. */
function watchSessions(http2, seeAll, attempt) {
  const { Duplex } = require('node:stream')
  const nothing = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
  const session = http2.connect('http://127.0.0.1', { createConnection: () => nothing })
  session.on('error', () => {})
  const known = Object.getPrototypeOf(session)
  session.destroy()
  const { request } = known
  known.request = function (headers, ...given) {
    attempt(() => seeAll(headers))
    const stream = request.call(this, headers, ...given)
    attempt(() => {
      const { emit } = stream
      stream.emit = function (event, ...values) {
        if (HEADS.has(event)) attempt(() => seeAll(values[0]))
        return emit.call(this, event, ...values)
      }
    })
    return stream
  }
}

const HEADS = new Set(['response', 'headers', 'trailers'])

function watchedRequest(request, seeAll, attempt) {
  return async (...given) => {
    attempt(() => {
      for (const one of given) seeAll(one?.headers)
    })
    const answer = await request(...given)
    attempt(() => seeAll(answer.headers))
    return answer
  }
}
