// Aim: a stop signal during the start ends every command cleanly, or by the signal where a result was due.
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { processesWith, startVedette } from '../support/platform/platform-process.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

/** Sends itself the signal when the first file of the program is resolved, before any of it has run. */
const onLoad = (signal: string) => `
import { registerHooks } from 'node:module'
registerHooks({
  resolve(specifier, context, next) {
    if (specifier.endsWith('/main.ts')) process.kill(process.pid, '${signal}')
    return next(specifier, context)
  },
})`

/** Sends itself the signal with its first call of the platform's API, between the platform's start and the agent's. */
const onFirstCall = `
import http from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
const { createServer } = http
let isFirst = true
http.createServer = (...given) => createServer(...given).prependListener('request', ({ url }) => {
  if (isFirst && url.startsWith('/v1/')) {
    isFirst = false
    process.kill(process.pid, 'SIGTERM')
  }
})
syncBuiltinESMExports()`

const MONITORS =
  'monitors: [{ name: Nobody, type: TCP, every: 1h, request: { hostname: 127.0.0.1, port: 9 } }]\n'

async function runInterrupted(command: string, before: string) {
  const folder = temporaryFolder()
  const started = startVedette([command], {
    NODE_OPTIONS: `--import=${pathToFileURL(temporaryFile('before.mjs', before)).href}`,
    MONITORS_FILE: temporaryFile('monitors.yaml', MONITORS),
    DATA_DIR: folder,
    PORT: '0',
    AGENT_HEALTH_PORT: '0',
  })
  const { code, signal, stderr } = await started.ended
  return { code, signal, stderr, left: processesWith(folder) }
}

const clean = { code: 0, signal: null, stderr: '', left: [] }

test.each([
  ['agent', 'while its parts are loaded', onLoad('SIGTERM'), clean],
  ['start', 'while its parts are loaded', onLoad('SIGINT'), clean],
  ['start', 'while it applies its monitors to its platform', onFirstCall, clean],
  ['check', 'by the signal', onLoad('SIGTERM'), { ...clean, code: null, signal: 'SIGTERM' }],
])('%s ends %s', async (command, _, before, expected) => {
  expect(await runInterrupted(command, before)).toEqual(expected)
})
