// Aim: the README's lines create a location, its key and the Secret of the agents on a real platform, wait for a
// platform that is not ready, and create no Secret where it refuses. Only kubectl is a stand-in.
import { execFile } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { missing } from '../support/needs.ts'
import { freePort } from '../support/network/free-port.ts'
import { startPlatform, type StartedPlatform } from '../support/platform/platform-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ACCOUNT = '7a4e2f60-9d5c-4a43-8f0e-6b1de1c8a001'
const ADMIN = 'a'.repeat(64)
const readme = readFileSync(join(import.meta.dirname, '../../docker/README.md'), 'utf8')
const [, said = ''] =
  /^# A private location, a key[^\n]*\n([^]*?)deploy agent\n/m.exec(readme) ?? []

const why = missing('curl')

/** Runs the lines; returns the Secret that kubectl received, and the error output. */
async function paste(port: number, admin: string) {
  const folder = temporaryFolder()
  const kubectl = join(folder, 'kubectl')
  writeFileSync(kubectl, `#!/bin/sh\ncase "$*" in *" create secret "*) echo "$@" > made ;; esac\n`)
  chmodSync(kubectl, 0o755)
  const lines = said.replaceAll('localhost:3000', `localhost:${port}`)
  const script = `admin=${admin}\naccount=${ACCOUNT}\n${lines}`
  const env = { PATH: `${folder}:${process.env['PATH']}` }
  const ran = promisify(execFile)('bash', ['-c', script], { cwd: folder, env })
  const { stderr } = await ran.catch((error: unknown) => error as { stderr: string })
  const made = join(folder, 'made')
  return { made: existsSync(made) ? readFileSync(made, 'utf8') : '', stderr }
}

let port: number
let platform: StartedPlatform | undefined
let early: ReturnType<typeof paste>
beforeEach(({ skip }) => skip(why !== undefined, why))
beforeAll(async () => {
  if (why !== undefined) return
  port = await freePort()
  early = paste(port, ADMIN)
  platform = await startPlatform({
    DATA_DIR: temporaryFolder(),
    PORT: String(port),
    ACCOUNT_ID: ACCOUNT,
    ADMIN_API_KEY: ADMIN,
  })
})
afterAll(async () => {
  platform?.kill('SIGTERM')
  await platform?.ended
})

test('run before the platform is ready, they wait for it', async () => {
  const { made, stderr } = await early
  expect(made + stderr).toMatch(/ create secret generic vedette-agent --from-literal=API_KEY=pl_\w/)
})

test.each([
  ['a location of that name is there already', ADMIN, /409[^]*no location was made/],
  ['the key is wrong', 'b'.repeat(64), /401[^]*no location was made/],
])('no Secret where %s', async (_, admin, complaint) => {
  await early
  const { made, stderr } = await paste(port, admin)
  expect(made).toBe('')
  expect(stderr).toMatch(complaint)
})
