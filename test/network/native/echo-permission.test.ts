// Aim: an agent's warning on ICMP at its start agrees with the kernel.
import { expect, test } from 'vitest'
import {
  areEchoesForbidden,
  echoFix,
  echoRights,
} from '../../../src/network/native/echo-permission.ts'

const NONE = '0000000000000000'
const NET_RAW = '0000000000002000'
const ALL_BUT_NET_RAW = '000001ffffffdfff'

test.each([
  ['1 0', [0], NONE, true],
  ['1 0', [0], ALL_BUT_NET_RAW, true],
  ['1 0', [0], NET_RAW, false],
  ['0 2147483647', [10_001], NONE, false],
  ['100 200', [99], NONE, true],
  ['100 200', [99, 100], NONE, false],
  ['100 200', [200], NONE, false],
  ['100 200', [201], NONE, true],
  // Without the data there is no warning.
  [undefined, [0], NONE, false],
  ['1 0', [0], undefined, false],
])('range %j, groups %j, capabilities %j: forbidden is %s', (range, groups, capabilities, is) => {
  expect(areEchoesForbidden({ range, groups, capabilities })).toBe(is)
})

test('the permissions of this process can be read, and the fix names the range', () => {
  const rights = echoRights()
  expect(rights).toMatchObject({
    range: expect.stringMatching(/^\d+ \d+$/) as string,
    capabilities: expect.stringMatching(/^[0-9a-f]{16}$/) as string,
  })
  expect(rights.groups).toContain(process.getegid?.())
  expect(echoFix(rights)).toContain(`it is "${rights.range}"`)
})
