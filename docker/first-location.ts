// Set-up job of compose.yaml: waits for the platform, makes a private location unless one of that name
// exists, and writes the key of its agents to DATA_DIR/api-key.
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ensureLocation } from '../src/cli/local-installation.ts'
import { type Environment, readEnvironment } from '../src/process/env.ts'
import { VARIABLE_TABLE as AGENT } from '../src/agent/config.ts'
import { VARIABLE_TABLE as PLATFORM } from '../src/platform/config.ts'

const WAIT_MS = 300_000
const ASK_MS = 5000
const PAUSE_MS = 500

const { PLATFORM_URL } = AGENT
const { ACCOUNT_ID, ADMIN_API_KEY, DATA_DIR } = PLATFORM

async function isReady(platformUrl: string): Promise<boolean> {
  const signal = AbortSignal.timeout(ASK_MS)
  try {
    const response = await fetch(`${platformUrl}/-/readiness`, { signal })
    await response.text()
    return response.ok
  } catch {
    return false
  }
}

async function writeKey(slugName: string, env: Environment): Promise<void> {
  const { values, problems } = readEnvironment(
    { PLATFORM_URL, ACCOUNT_ID, ADMIN_API_KEY, DATA_DIR },
    env,
  )
  const {
    PLATFORM_URL: url,
    ACCOUNT_ID: accountId,
    ADMIN_API_KEY: apiKey,
    DATA_DIR: folder,
  } = values
  if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join('; '))
  if (
    url === undefined ||
    accountId === undefined ||
    apiKey === undefined ||
    folder === undefined
  ) {
    throw new Error('set PLATFORM_URL, ACCOUNT_ID, ADMIN_API_KEY and DATA_DIR')
  }
  const platformUrl = url.replace(/\/+$/, '')
  const until = performance.now() + WAIT_MS
  while (!(await isReady(platformUrl))) {
    if (performance.now() > until) throw new Error(`${platformUrl} is not ready`)
    await sleep(PAUSE_MS)
  }
  const target = { platformUrl, accountId, apiKey, proxyUrl: undefined, noProxy: [] }
  const location = await ensureLocation(target, slugName, folder)
  const draft = join(folder, 'api-key.new')
  writeFileSync(draft, `${location.apiKey}\n`, { mode: 0o600 })
  renameSync(draft, join(folder, 'api-key'))
  process.stdout.write(`private location ${slugName}: ${location.id}\n`)
}

try {
  await writeKey(process.argv[2] ?? 'compose', process.env)
} catch (error) {
  process.stderr.write(`first-location: ${(error as Error).message}\n`)
  process.exitCode = 1
}
