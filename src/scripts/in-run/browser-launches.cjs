// Starts every browser of user code by the launcher of the agent, whichever program they name and however
// they come to launch it, as Chromium's own sandbox is the launcher's to turn off. Runs inside of user
// projects: plain CommonJS, no dependency, for every Node.js since 18 and for Bun.
'use strict'
const { ChildProcess } = require('node:child_process')
const { existsSync } = require('node:fs')
const path = require('node:path')

const browsers = process.env.PLAYWRIGHT_BROWSERS_PATH
const launcher = browsers === undefined ? undefined : path.join(browsers, 'chromium')
const { spawn } = ChildProcess.prototype

module.exports = function startByLauncher() {
  if (launcher === undefined) return
  ChildProcess.prototype.spawn = function (options) {
    return Reflect.apply(spawn, this, [isBare(options) ? launched(options) : options])
  }
}

/** The usual names of Chromium. */
const CHROMIUM =
  /^(?:(?:chromium|chrome|google-chrome)(?:-(?:browser|shell|headless-shell|stable|beta|unstable|canary))?|headless_shell)$/

/** A browser past the launcher: Chromium by its name, or one to be steered, without its sandbox. */
function isBare(options) {
  const { file, args } = options ?? {}
  if (typeof file !== 'string' || !Array.isArray(args)) return false
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
