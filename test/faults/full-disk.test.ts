// The disk of an agent is full while it stores the files of runs. Each result arrives and names the files left out,
// with size and reason; uptime monitors continue, and with free space files are stored again.
import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RunDetail } from '../../src/contract/api/run.ts'
import { eventually } from '../support/eventually.ts'
import { faultsOf } from '../support/faults/fleet.ts'
import { ScriptFleet } from '../support/scripts/script-fleet.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const MEBIBYTE = 1_048_576
const FILE_BYTES = 20 * MEBIBYTE
/** Space for one file of a run, not for a second one of its size. */
const FREE_BYTES = 30 * MEBIBYTE
const isRoot = process.getuid?.() === 0
let scene: ScriptFleet
let disk: string

beforeAll(async () => {
  if (!isRoot) return
  disk = temporaryFolder()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=96m,mode=755', 'tmpfs', disk])
  scene = await ScriptFleet.start({ env: { DATA_DIR: disk } })
  // The first run stores compiled code, which later ones share.
  const script = `require('@playwright/test').test('nothing', () => {})`
  const first = await scene.monitor('MULTI_STEP', { script })
  await scene.finished(first, await scene.ask(first))
})
afterAll(async () => {
  if (!isRoot) return
  await scene.close()
  execFileSync('umount', ['-l', disk])
})

const freeBytes = () => {
  const { bavail, bsize } = statfsSync(disk)
  return bavail * bsize
}

/** A monitor whose run attaches a file of 20 MiB that begins with these bytes, and fails. */
const attaching = (name: string, head: string) =>
  scene.monitor('MULTI_STEP', {
    // Otherwise the trace would contain the file again.
    playwrightConfig: { use: { trace: 'off' } },
    script: `const { test } = require('@playwright/test')
      const { openSync, writeSync } = require('fs')
      test('files', async ({}, info) => {
        const path = info.outputPath('${name}')
        const file = openSync(path, 'w')
        const piece = Buffer.alloc(${MEBIBYTE}, 'authorization: bearer petals-of-roses \\n')
        piece.write('${head}', 'hex')
        for (let n = 0; n < 20; n++) writeSync(file, piece)
        // Playwright's own attach() makes a copy.
        info.attachments.push({ name: '${name}', path, contentType: 'application/octet-stream' })
        throw new Error('as it is to')
      })`,
  })

const leftOutOf = ({ result }: RunDetail): string[] =>
  (result?.observed?.['artifactsLeftOut'] ?? []) as string[]

const KINDS: [string, string, string][] = [
  ['a video, which is stored unchanged', 'video.webm', '1a45dfa3'],
  ['a log, which is scrubbed before', 'log.txt', '70'],
]

test.each(KINDS)('%s', async (_, name, head) => {
  if (!isRoot) return
  const filler = join(disk, 'filler')
  rmSync(filler, { force: true })
  await scene.fleet.createMonitors(5, 2, ['cellar'])
  const monitorId = await attaching(name, head)
  writeFileSync(filler, Buffer.alloc(freeBytes() - FREE_BYTES))
  const run = await scene.finished(monitorId, await scene.ask(monitorId))
  expect(run).toMatchObject({ verdict: 'failed' })
  expect(leftOutOf(run)).toEqual([
    expect.stringMatching(new RegExp(`${name}: it has ${FILE_BYTES} bytes, and the disk is full`)),
  ])
  expect(run.artifacts.map((one) => one.name)).not.toContain(name)
  // Nothing of the file remains.
  await eventually(() => freeBytes() > FREE_BYTES - MEBIBYTE)
  expect(readdirSync(join(disk, 'work'))).toEqual([])

  rmSync(filler)
  const again = await scene.ask(monitorId)
  expect(leftOutOf(await scene.finished(monitorId, again))).toEqual([])
  const stored = await eventually(
    async () => {
      const { artifacts } = await scene.run(monitorId, again)
      return artifacts.find((one) => one.name.endsWith(name) && one.state === 'stored')
    },
    { what: 'the file' },
  )
  // Without its secrets a log is shorter.
  expect(stored.bytes).toBeGreaterThan(FILE_BYTES / 2)
  expect(faultsOf(await scene.fleet.account())).toEqual({})
  expect(scene.agent.child.exitCode).toBeNull()
})
