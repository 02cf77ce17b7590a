// Aim: what every type of monitor promises, for every registered one that is not a program: the network policy
// holds, a cancelled run ends at once, an observation is plain JSON, and its metrics are those of the definition.
import { describe, expect, test } from 'vitest'
import { DEFINITIONS } from '../../src/monitors/definitions.ts'
import { MONITOR_TYPES } from '../../src/monitors/registry.ts'
import type { AnyMonitorType } from '../../src/monitors/monitor.ts'
import { definitionOf, type Fields } from '../support/definitions.ts'
import { cancelAt } from '../support/monitors/check-monitor.ts'
import { fixedResolver, testContext } from '../support/monitors/monitor-context.ts'

const PROGRAMS: ReadonlySet<string> = new Set(['BROWSER', 'MULTI_STEP', 'PLAYWRIGHT'])
/** Its example asks the name servers of the system, which no test may reach. */
const MORE: Record<string, Fields> = { DNS: { request: { nameServer: 'example.com' } } }
const types = [...MONITOR_TYPES].filter(([checkType]) => !PROGRAMS.has(checkType))

const prepared = (checkType: string, type: AnyMonitorType) =>
  type.prepare(type.schema.parse(definitionOf(checkType, MORE[checkType])))

describe.each(types)('%s', (checkType, type) => {
  test('an address that the network policy blocks is not reached', async () => {
    const resolver = fixedResolver({ 'example.com': ['127.0.0.1'] })
    const blocked = ['0.0.0.0/0', '::/0']
    const observation = await prepared(checkType, type)(testContext({ resolver, blocked }))
    expect(observation.failures.map(({ code }) => code)).toEqual(['ADDRESS_BLOCKED'])
    expect(JSON.parse(JSON.stringify(observation))).toEqual(observation)
    const known = Object.keys(DEFINITIONS.get(checkType)?.metrics ?? {})
    expect(known).toEqual(
      expect.arrayContaining(type.samples(observation.observed).map(({ name }) => name)),
    )
  })

  test('a cancelled run rejects within 50 ms', async () => {
    const resolver = fixedResolver({})
    const run = prepared(checkType, type)
    const outcome = await cancelAt(Promise.resolve(), (signal) =>
      run(testContext({ resolver, signal })),
    )
    expect(outcome).toBe('let go')
  })
})
