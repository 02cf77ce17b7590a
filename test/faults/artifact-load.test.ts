// A large file of a run on its way through an agent: concurrent uptime monitors miss no slot, memory does not grow with
// it, and the disk is free again.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { faultsOf } from '../support/faults/fleet.ts'
import { ScriptFleet } from '../support/scripts/script-fleet.ts'

const MEBIBYTE = 1_048_576
let scene: ScriptFleet

beforeAll(async () => {
  scene = await ScriptFleet.start()
})
afterAll(() => scene.close(), 60_000)

/** Attaches a file of 140 MiB and fails. */
const SCRIPT = `const { test } = require('@playwright/test')
  const { openSync, writeSync } = require('fs')
  test('files', async ({}, info) => {
    const piece = require('crypto').randomBytes(${MEBIBYTE})
    const path = info.outputPath('of-140')
    const file = openSync(path, 'w')
    for (let n = 0; n < 140; n++) writeSync(file, piece)
    await info.attach('of-140', { path })
    throw new Error('as it is to')
  })`

/** Bytes of all files in the agent's data folder. */
function storedBytes(): number {
  return readdirSync(scene.dataFolder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.startsWith('agents'))
    .reduce((sum, name) => {
      const found = statSync(join(scene.dataFolder, name), { throwIfNoEntry: false })
      return sum + (found?.isFile() === true ? found.size : 0)
    }, 0)
}

function peakMemoryBytes(): number {
  const status = readFileSync(`/proc/${scene.agent.child.pid}/status`, 'latin1')
  return Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]) * 1024
}

test('a file of 140 MiB passes, and no slot is missed', async () => {
  const { fleet, proxy } = scene
  await fleet.createMonitors(10, 2, ['cellar'])
  const monitorId = await scene.monitor('MULTI_STEP', {
    // Otherwise the trace would contain the file again.
    playwrightConfig: { use: { trace: 'off' } },
    script: SCRIPT,
  })
  const runId = await scene.ask(monitorId)
  const { artifacts } = await scene.finished(monitorId, runId, 200_000)
  const name = artifacts.find((one) => one.name.startsWith('of-140'))?.name ?? ''
  const stored = await eventually(
    async () => {
      const run = await scene.run(monitorId, runId)
      return run.artifacts.find((one) => one.name === name && one.state === 'stored')
    },
    { what: 'the large file' },
  )
  expect(stored.bytes).toBe(140 * MEBIBYTE)
  expect(proxy.requests.find(({ path }) => path.endsWith(name))?.bytes).toBe(140 * MEBIBYTE)
  // Slots that were due meanwhile; few may be overtaken on a slow machine.
  expect(faultsOf(await fleet.account())).toEqual({})
  // Far less than the file, on top of the agent's own memory and the heap of the scrubbing thread.
  expect(peakMemoryBytes()).toBeLessThan(600 * MEBIBYTE)
  await eventually(() => storedBytes() < MEBIBYTE, { what: 'the disk to be free again' })
})
