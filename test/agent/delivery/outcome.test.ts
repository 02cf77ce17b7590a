// What is done about each answer: by its status, unless something before the platform gave it.
import { expect, test } from 'vitest'
import { actionForStatus, outcomeOf, outcomeOfError } from '../../../src/agent/delivery/outcome.ts'

test.each([
  ['done', [200, 204, 299]],
  ['hold', [302, 401, 403, 404, 405, 407, 415, 499]],
  ['halve', [400, 409, 413, 422]],
  ['retry', [408, 425, 429, 500, 503, 599, 999]],
])('%s is the action for %j', (action, statuses) => {
  for (const status of statuses) expect(actionForStatus(status), `${status}`).toBe(action)
})

test.each([
  [400, '{"statusCode":400}', 'halve'],
  [400, '<html>', 'hold'],
  [409, '<html>', 'hold'],
  [413, '<html>', 'halve'],
  [502, '<html>', 'retry'],
])('%i with %s is to %s', (status, text, action) => {
  expect(outcomeOf({ status, headers: {}, body: Buffer.from(text) }).action).toBe(action)
})

const ERRORS = { UNREACHABLE: 'retry', TLS: 'retry', REDIRECTED: 'hold' }
test.each(Object.entries(ERRORS))('for %s it is %s', (code, action) => {
  expect(outcomeOfError(Object.assign(new Error('x'), { code })).action).toBe(action)
})
