// Aim: the example that `npm start` and `vedette check` show works on a machine without any network:
// its file is valid without warnings, and its monitors give the verdicts that its comments promise.
import { fileURLToPath } from 'node:url'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createClock } from '../../src/agent/schedule/clock.ts'
import { formatProblem } from '../../src/agent/monitors-file/problems.ts'
import { readMonitorsFile, type LoadedFile } from '../../src/agent/monitors-file/file.ts'
import { createRunner } from '../../src/agent/run/runner.ts'
import { EXAMPLE_MONITORS, startExampleSite, type ExampleSite } from '../../src/examples/site.ts'
import { createDialler } from '../../src/network/dialler.ts'
import { createNetworkPolicy } from '../../src/network/network-policy.ts'
import { MONITOR_TYPES } from '../../src/monitors/registry.ts'
import { createResolver } from '../../src/network/dns/resolver.ts'

let site: ExampleSite
let file: LoadedFile

beforeAll(async () => {
  site = await startExampleSite()
  const path = fileURLToPath(EXAMPLE_MONITORS)
  const read = await readMonitorsFile(path, {}, MONITOR_TYPES, site.variables)
  if (!read.ok) throw new Error(read.problems.map(formatProblem).join('\n'))
  file = read.file
})
afterAll(() => site.close())

test('the file is valid and has no warnings', () => {
  expect(file.warnings).toEqual([])
  expect(new Set(file.monitors.map((one) => one.checkType))).toEqual(new Set(['URL', 'API', 'TCP']))
})

test('its secret is not in the definitions', () => {
  const token = site.variables.find((one) => one.key === 'TOKEN')
  expect(token?.secret).toBe(true)
  expect(JSON.stringify(file.monitors)).not.toContain(token?.value)
})

test('every monitor passes, but for the slow page, which is degraded', async () => {
  const clock = createClock()
  const runner = createRunner({
    types: MONITOR_TYPES,
    clock,
    workRoot: tmpdir(),
    scrubHeaders: [],
  })
  const locationContext = {
    location: 'local',
    variables: file.variables,
    secrets: [],
    dial: createDialler({
      policy: createNetworkPolicy({ blocked: [], allowed: [] }),
      resolver: createResolver({ useOsResolver: false }),
    }),
  }
  const signal = new AbortController().signal
  const results = await Promise.all(
    file.monitors.map((monitor) =>
      runner.run({ monitor, slot: Date.now() }, locationContext, signal),
    ),
  )
  const observed = results.map(({ monitorName, verdict, failures }) => ({
    monitorName,
    verdict,
    failures,
  }))
  expect(observed).toEqual(
    file.monitors.map(({ name }) => ({
      monitorName: name,
      verdict: name === 'Slow page' ? 'degraded' : 'passed',
      failures: [],
    })),
  )
})
