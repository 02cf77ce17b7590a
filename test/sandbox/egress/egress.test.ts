// A run gets a proxy where the location has one, or where its connections cannot be held to the policy.
import { expect, test } from 'vitest'
import { createSandbox } from '../../../src/sandbox/sandbox.ts'
import { openEgress } from '../../../src/sandbox/egress/egress.ts'
import { testContext } from '../../support/monitors/monitor-context.ts'

const proxyUrl = 'http://127.0.0.1:3128'

test.each([
  ['no proxy where its connections are always evaluated', 'require', undefined, undefined],
  ['one where the policy cannot be enforced, if that is allowed', 'best', undefined, 'unenforced'],
  ['one in any case where the location has one', 'require', proxyUrl, 'always'],
  ['one in any case where the location has one, enforced or not', 'best', proxyUrl, 'always'],
] as const)('a run has %s', async (_, isolation, given, when) => {
  const network = { blocked: [], allowed: [] }
  const sandbox = createSandbox({ network, isolation, firstUserId: 64_500 })
  const { dial } = testContext(given === undefined ? {} : { proxyUrl: given })
  const egress = await openEgress(sandbox, dial, ({ server }) => ({ WAY: server }))
  const { proxy } = egress.order
  expect(proxy?.when).toBe(when)
  const at = proxy && `http://127.0.0.1:${proxy.port}`
  expect(proxy?.environment['WAY']).toBe(at)
  await egress.close()
  sandbox.close()
})
