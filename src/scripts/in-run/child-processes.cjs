// Starts every process of user code so that it is observed as this one is. Every browser is started by the launcher of
// the agent, as Chromium's own sandbox is the launcher's to turn off. Runs inside of user projects: plain CommonJS, no
// dependency, for every Node.js since 18 and for Bun.
'use strict'
const { ChildProcess } = require('node:child_process')
const { existsSync } = require('node:fs')
const path = require('node:path')

const browsers = process.env.PLAYWRIGHT_BROWSERS_PATH
const launcher = browsers === undefined ? undefined : path.join(browsers, 'chromium')
/** What processes of Node.js load first. */
const preload = path.join(__dirname, 'run-preload.cjs')
/** Our variables as they are now, which user code may change. */
const ours = ['VEDETTE_EVENTS', 'VEDETTE_HEADERS', 'PLAYWRIGHT_BROWSERS_PATH']
  .filter((name) => process.env[name] !== undefined)
  .map((name) => [name, process.env[name]])

module.exports = function watchChildren() {
  const options = (given) => withOurs(isBare(given) ? launched(given) : given)
  wrapSpawn(ChildProcess.prototype, options)
  const { noDeprecation } = process
  // Nothing else than this binding is on the way of synchronous calls.
  process.noDeprecation = true
  try {
    wrapSpawn(process.binding('spawn_sync'), options)
  } catch {
    // There is none in Bun.
  } finally {
    process.noDeprecation = noDeprecation
  }
}

function wrapSpawn(owner, options) {
  const { spawn } = owner
  owner.spawn = function (given) {
    return Reflect.apply(spawn, this, [options(given)])
  }
}

/** The options with our variables, where user code starts a process in an environment without them. */
function withOurs(options) {
  const { envPairs, args = [] } = options ?? {}
  if (!Array.isArray(envPairs)) return options
  const given = (name) => envPairs.find((pair) => pair.startsWith(`${name}=`))
  const missing = ours.filter(([name]) => given(name) === undefined)
  const pairs = [...envPairs, ...missing.map((pair) => pair.join('='))]
  const nodeOptions = given('NODE_OPTIONS') ?? 'NODE_OPTIONS='
  // With permissions of its own, Node.js could not read our program.
  const isRestricted = args.some((one) => /^--(?:experimental-)?permission$/.test(one))
  if (isRestricted || nodeOptions.includes(__dirname)) return { ...options, envPairs: pairs }
  const loading = nodeOptions.replace('=', `=--require "${preload}" `)
  return { ...options, envPairs: [loading, ...pairs.filter((pair) => pair !== nodeOptions)] }
}

/** The usual names of Chromium. */
const CHROMIUM =
  /^(?:(?:chromium|chrome|google-chrome)(?:-(?:browser|shell|headless-shell|stable|beta|unstable|canary))?|headless_shell)$/

/** A browser past the launcher: Chromium by its name, or one to be steered, without its sandbox. */
function isBare(options) {
  const { file, args } = options ?? {}
  if (launcher === undefined || typeof file !== 'string' || !Array.isArray(args)) return false
  if (file.startsWith(`${browsers}${path.sep}`)) return false
  const isSteered = args.some((one) => String(one).startsWith('--remote-debugging-'))
  const isBrowser =
    CHROMIUM.test(path.basename(file)) || (isSteered && args.includes('--no-sandbox'))
  return isBrowser && existsSync(launcher)
}

/** The first argument is the name of the program. */
function launched({ file, args, ...options }) {
  return {
    ...options,
    file: launcher,
    args: [launcher, `--vedette-program=${file}`, ...args.slice(1)],
  }
}
