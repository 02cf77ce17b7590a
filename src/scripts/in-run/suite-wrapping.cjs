// Adds to the configuration of a check suite what it leaves open. It runs inside of user projects: plain
// CommonJS, no dependency, for every Node.js since 18 and for Bun.
'use strict'
// oxlint-disable-next-line import/no-unassigned-import -- it works by itself; Bun does not read NODE_OPTIONS
require('./run-preload.cjs')

const WORKERS = 4
const RETRIES = 2
/** Where no video can be made, the mode that was asked for stands under this name, for the reporter. */
const VIDEO_WANTED = 'vedetteVideoWanted'
/** Left open, a video is made when a test is tried again, and a picture when it failed. */
const DEFAULT_USE = { video: 'on-first-retry', screenshot: 'only-on-failure' }

module.exports = function wrap(loaded) {
  // As Playwright does it: modules that were CommonJS once come with a default in the default.
  let config = loaded
  for (let at = 0; at < 2; at++) {
    if (config !== null && typeof config === 'object' && 'default' in config)
      config = config.default
  }
  // An invalid configuration is left for Playwright itself to report.
  if (config === null || typeof config !== 'object') return config
  const use = { ...DEFAULT_USE, ...config.use }
  use.proxy ??= proxy()
  const projects = Array.isArray(config.projects) ? config.projects.map(withTrace) : undefined
  return {
    ...config,
    workers: config.workers ?? WORKERS,
    retries: config.retries ?? RETRIES,
    reporter: reporters(config.reporter),
    use: videoAllowed({ ...use, trace: traceOn(use.trace) }),
    ...(projects === undefined ? {} : { projects }),
  }
}

function withTrace(project) {
  if (project === null || typeof project !== 'object' || project.use === undefined) return project
  const { use } = project
  const trace = 'trace' in use ? { trace: traceOn(use.trace) } : {}
  return { ...project, use: videoAllowed({ ...use, ...trace }) }
}

/** Without the program that makes them, asking for videos would fail every test. */
function videoAllowed(use) {
  if (process.env.VEDETTE_VIDEO !== '0' || !('video' in use)) return use
  return { ...use, video: 'off', [VIDEO_WANTED]: use.video?.mode ?? use.video }
}

function traceOn(trace) {
  return trace !== null && typeof trace === 'object' ? { ...trace, mode: 'on' } : 'on'
}

function proxy() {
  const given = process.env.VEDETTE_PROXY
  return given === undefined ? undefined : JSON.parse(given)
}

/** The project's own reporters, and the HTML report; its folder is given by Playwright's own variable. */
function reporters(given) {
  const own = typeof given === 'string' ? [[given]] : (given ?? [['list']])
  if (!Array.isArray(own)) return given
  const hasHtml = own.some((one) => one === 'html' || (Array.isArray(one) && one[0] === 'html'))
  return hasHtml ? own : [...own, ['html', { open: 'never' }]]
}
