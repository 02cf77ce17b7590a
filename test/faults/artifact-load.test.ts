// Large files of runs on their way through an agent: concurrent uptime monitors miss no slot, memory does not grow,
// a file over the limit is named with its size, and disk use stays bounded while the platform accepts none.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LIMITS } from '../../src/contract/versions.ts'
import { eventually } from '../support/eventually.ts'
import { faultsOf } from '../support/faults/fleet.ts'
import { ScriptFleet } from '../support/scripts/script-fleet.ts'

const MEBIBYTE = 1_048_576
const SPOOL_BYTES_MAX = 180 * MEBIBYTE
let scene: ScriptFleet

beforeAll(async () => {
  scene = await ScriptFleet.start({ env: { SPOOL_BYTES_MAX: String(SPOOL_BYTES_MAX) } })
})
afterAll(() => scene.close(), 60_000)

/** A monitor whose run attaches a file of this size in MiB and fails. */
const attaching = (size: number) =>
  scene.monitor('MULTI_STEP', {
    // Otherwise the trace would contain the file again.
    playwrightConfig: { use: { trace: 'off' } },
    script: `const { test } = require('@playwright/test')
      const { openSync, writeSync } = require('fs')
      test('files', async ({}, info) => {
        const piece = require('crypto').randomBytes(${MEBIBYTE})
        const path = info.outputPath('of-${size}')
        const file = openSync(path, 'w')
        for (let n = 0; n < ${size}; n++) writeSync(file, piece)
        await info.attach('of-${size}', { path })
        throw new Error('as it is to')
      })`,
  })

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

async function metric(name: string): Promise<number> {
  const started = scene.agent.lines.find(({ msg }) => msg === 'agent started')
  const text = await (await fetch(`${String(started?.['url'])}/metrics`)).text()
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.split(' ')
      .at(-1) ?? 0,
  )
}

test('a file of 140 MiB passes, and no slot is missed', async () => {
  const { fleet, proxy } = scene
  await fleet.createMonitors(10, 2, ['cellar'])
  const monitorId = await attaching(140)
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

test('a file over the limit is left out, with its name and size', async () => {
  const monitorId = await attaching(151)
  const { result, artifacts } = await scene.finished(monitorId, await scene.ask(monitorId))
  const bytes = 151 * MEBIBYTE
  expect(result?.observed?.['artifactsLeftOut']).toEqual([
    expect.stringContaining(
      `it has ${bytes} bytes, more than the limit of ${LIMITS.artifactBytesMax}`,
    ),
  ])
  expect(JSON.stringify(result?.observed)).toContain('of-151')
  expect(artifacts.filter((one) => one.name.startsWith('of-151'))).toEqual([])
})

test('while the platform accepts no files, the oldest one is dropped and counted', async () => {
  scene.proxy.hold = (method) => (method === 'PUT' ? new Promise(() => {}) : undefined)
  const monitorId = await attaching(100)
  for (let n = 0; n < 2; n++) {
    await scene.finished(monitorId, await scene.ask(monitorId), 120_000)
    expect(storedBytes()).toBeLessThan(SPOOL_BYTES_MAX + MEBIBYTE)
  }
  const dropped = 'vedette_artifacts_total{outcome="dropped"}'
  expect(await metric(dropped)).toBe(1)
})
