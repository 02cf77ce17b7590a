// Watches the browsers and request contexts that a script makes by Playwright's public API. Loaded into the processes of
// user scripts: plain CommonJS, no dependency, for every Node.js since 18.
'use strict'
const Module = require('node:module')
const { watchContext, writeOwnRequest } = require('./page-watch.cjs')

/** What an ES module imports comes by its path. */
const LIBRARY = /[\\/]playwright-core[\\/]index\.js$/

/** Methods of a request context that send a request. */
const METHODS = new Set(['delete', 'fetch', 'get', 'head', 'patch', 'post', 'put'])

const watched = new WeakSet()

const load = Module._load
Module._load = function (request, ...rest) {
  const loaded = Reflect.apply(load, this, [request, ...rest])
  if (request === 'playwright-core' || LIBRARY.test(request)) watchLibrary(loaded)
  return loaded
}

function watchLibrary({ chromium, firefox, webkit, request }) {
  // Without a request context it is still being loaded.
  if (request === undefined || watched.has(request)) return
  watched.add(request)
  wrap(request, 'newContext', async (create, options) =>
    watchRequests(await create(withProxy(options))),
  )
  for (const type of [chromium, firefox, webkit]) {
    wrap(type, 'launch', async (launch, options) => {
      const browser = await launch(withProxy(options))
      wrap(browser, 'newContext', watchedContext)
      return browser
    })
    wrap(type, 'launchPersistentContext', (launch, folder, options) =>
      watchedContext(launch, folder, withProxy(options)),
    )
  }
}

/** Calls `by` with the method of the owner and its arguments, in the place of the method. */
function wrap(owner, name, by) {
  const own = owner[name].bind(owner)
  owner[name] = (...given) => by(own, ...given)
}

async function watchedContext(create, ...given) {
  const context = await create(...given)
  await watchContext(context)
  context.request = watchRequests(context.request)
  for (const page of context.pages()) page.request = context.request
  return context
}

function withProxy(options) {
  const proxy = process.env.VEDETTE_PROXY
  if (proxy === undefined || options?.proxy !== undefined) return options
  return { ...options, proxy: JSON.parse(proxy) }
}

/** The request context, of which each request is reported. */
function watchRequests(api) {
  return new Proxy(api, {
    get(_, name) {
      const value = api[name]
      if (typeof value !== 'function') return value
      const call = value.bind(api)
      return METHODS.has(name) ? (...given) => watchRequest(name, call, given) : call
    },
  })
}

async function watchRequest(name, call, given) {
  const [at, startedAt] = [Date.now(), performance.now()]
  const ms = () => performance.now() - startedAt
  try {
    const response = await call(...given)
    const total = ms()
    writeOwnRequest({ ...entryOf(name, given), at, status: response.status(), ms: total })
    // `getAPIResponseTime` of @checkly/playwright-helpers asks for it.
    response.timings ??= () => ({ total })
    return response
  } catch (error) {
    const failure = String(error?.message ?? error).replace(/^apiRequestContext\.\w+: /, '')
    writeOwnRequest({ ...entryOf(name, given), at, failure, ms: ms() })
    throw error
  }
}

/** `fetch` accepts a request of a page as well. */
function entryOf(name, [target, options]) {
  const isRequest = typeof target?.url === 'function'
  const named = options?.method ?? (isRequest ? target.method() : 'GET')
  const method = name === 'fetch' ? String(named) : name.toUpperCase()
  return { method, url: isRequest ? target.url() : String(target) }
}
