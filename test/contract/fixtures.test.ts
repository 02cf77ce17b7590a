// Aim: what a public command-line tool really sends on deploy is understood as it is, so that people
// can bring their definitions along. The payloads have no id; file and platform give one.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type * as z from 'zod'
import { DEFINITIONS } from '../../src/monitors/definitions.ts'
import { CheckGroup } from '../../src/contract/api/check-group.ts'
import { Monitor } from '../../src/contract/monitor.ts'

interface Resource {
  type: string
  logicalId: string
  payload: Record<string, unknown>
}

const file = new URL('../fixtures/deploy-payload.json', import.meta.url)
const { resources } = JSON.parse(readFileSync(file, 'utf8')) as { resources: Resource[] }
const checks: Record<string, unknown>[] = resources
  .filter((one) => one.type === 'check')
  .map((one) => ({ ...one.payload, id: one.logicalId }))

const schemaOf = (check: Record<string, unknown>) =>
  DEFINITIONS.get(String(check['checkType']))?.schema as z.ZodType

describe('definitions sent on deploy', () => {
  test('are of every network type', () => {
    expect(checks.map((one) => one['checkType'])).toEqual(
      'URL API TCP DNS ICMP GRPC TRACEROUTE SSL HEARTBEAT'.split(' '),
    )
  })

  test.each(checks)('$checkType parses unchanged, in its common part and as a whole', (check) => {
    expect(Monitor.parse(check)).toMatchObject(check)
    const once = schemaOf(check).parse(check)
    expect(once).toMatchObject(check)
    expect(schemaOf(check).parse(once)).toEqual(once)
  })

  test('the group parses, unchanged', () => {
    const group = resources.find((one) => one.type === 'check-group')?.payload
    expect(CheckGroup.parse(group)).toMatchObject(group as object)
  })
})
