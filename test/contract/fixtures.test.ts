// Aim: what a public command-line tool really sends on deploy is understood as it is, so that people
// can bring their definitions along. The payloads have no id; file and platform give one.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type * as z from 'zod'
import { ApiMonitor, UrlMonitor } from '../../src/contract/http-monitor.ts'
import { Monitor } from '../../src/contract/monitor.ts'
import { TcpMonitor } from '../../src/contract/tcp-monitor.ts'

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

const whole: Record<string, z.ZodType> = { URL: UrlMonitor, API: ApiMonitor, TCP: TcpMonitor }

describe('definitions sent on deploy', () => {
  test('are of every network type', () => {
    expect(checks.map((one) => one['checkType'])).toEqual(
      'URL API TCP DNS ICMP GRPC TRACEROUTE SSL HEARTBEAT'.split(' '),
    )
  })

  test.each(checks)('the common part of $checkType parses and is kept', (check) => {
    expect(Monitor.parse(check)).toMatchObject(check)
  })

  test.each(checks.filter((one) => String(one['checkType']) in whole))(
    '$checkType parses as a whole, unchanged',
    (check) => {
      expect(whole[String(check['checkType'])]?.parse(check)).toMatchObject(check)
    },
  )

  test.each(checks.filter((one) => String(one['checkType']) in whole))(
    'what $checkType parses to parses to itself',
    (check) => {
      const schema = whole[String(check['checkType'])] as z.ZodType
      const once = schema.parse(check)
      expect(schema.parse(once)).toEqual(once)
    },
  )
})
