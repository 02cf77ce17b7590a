// Aim: the platform accepts no variable of an account that agents would refuse in a monitor.
import { expect, test } from 'vitest'
import { AccountVariableInput } from '../../../src/contract/api/account-variable.ts'
import { Variable } from '../../../src/contract/monitor.ts'
import { LIMITS } from '../../../src/contract/versions.ts'

const MAX = LIMITS.secretCharactersMax

test.each([
  ['x'.repeat(MAX), true],
  ['x'.repeat(MAX + 1), false],
  ['\u{1F6A8}'.repeat(MAX / 2), true],
  ['\u{1F6A8}'.repeat(MAX / 2 + 1), false],
])('both measure a secret alike (%#)', (value, isAccepted) => {
  for (const schema of [AccountVariableInput, Variable]) {
    expect(schema.safeParse({ key: 'TOKEN', value, secret: true }).success).toBe(isAccepted)
  }
})
