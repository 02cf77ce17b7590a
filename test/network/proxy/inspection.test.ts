// Aim: targets of the proxy are checked against the policy by one look-up per name with a time limit of its own:
// unresponsive name servers delay a check only once, and never cause a failure of the target.
import { describe, expect, test } from 'vitest'
import { DeadlineReached } from '../../../src/network/deadline.ts'
import { createNetworkPolicy } from '../../../src/network/network-policy.ts'
import { createInspection } from '../../../src/network/proxy/inspection.ts'
import type { Resolver } from '../../../src/network/dns/resolver.ts'
import { failureOf } from '../../../src/network/target-failure.ts'

const policy = createNetworkPolicy({ blocked: [], allowed: [] })
const never = new AbortController().signal
const endpoint = { host: 'inside.test', port: 443, family: 'IPv4' } as const

/** Name servers that answer when the test says so; `asked` has a family per question. */
function heldResolver() {
  const asked: string[] = []
  let pending: PromiseWithResolvers<[string]>[] = []
  const resolver: Resolver = {
    resolve(_, family, signal) {
      asked.push(family)
      const question = Promise.withResolvers<[string]>()
      pending.push(question)
      signal.addEventListener('abort', () => question.reject(signal.reason))
      return question.promise
    },
  }
  const answer = (...addresses: string[]) => {
    for (const [at, question] of pending.entries()) {
      const address = addresses[at]
      if (address === undefined) question.reject(new Error('not found'))
      else question.resolve([address])
    }
    pending = []
  }
  return { asked, resolver, answer }
}

/** Runs one check until its deadline comes; its failure's code, or `passed`. */
async function outcome(check: Promise<void>): Promise<string> {
  return check.then(
    () => 'passed',
    (error: unknown) => failureOf(error, { phase: 'dns' }).code,
  )
}

describe('a look-up', () => {
  test('is shared by all waiting checks, and outlives those whose deadline passes', async () => {
    const { asked, resolver, answer } = heldResolver()
    const inspect = createInspection({ policy, resolver })
    const impatient = new AbortController()
    const first = outcome(inspect(endpoint, impatient.signal))
    const second = outcome(inspect(endpoint, never))
    impatient.abort(new DeadlineReached(10))
    expect(await first).toBe('POLICY_UNDECIDED')
    answer()
    expect(await second).toBe('passed')
    expect(asked).toEqual(['IPv4', 'IPv6'])
    expect(await outcome(inspect(endpoint, never))).toBe('passed')
    expect(asked).toHaveLength(2)
  })

  test('ends at its own time limit, and is not waited for a second time', async () => {
    const { asked, resolver } = heldResolver()
    const inspect = createInspection({ policy, resolver, lookUpMs: 5, rememberMs: 0 })
    expect(await outcome(inspect(endpoint, never))).toBe('passed')
    const hurried = new AbortController()
    const again = outcome(inspect(endpoint, hurried.signal))
    // Looked up again, and passed without an answer.
    expect(asked).toHaveLength(4)
    expect(await again).toBe('passed')
  })

  test('that a check did not wait for still denies later', async () => {
    const { resolver, answer } = heldResolver()
    const inspect = createInspection({ policy, resolver })
    const impatient = new AbortController()
    const first = outcome(inspect(endpoint, impatient.signal))
    impatient.abort(new DeadlineReached(1))
    expect(await first).toBe('POLICY_UNDECIDED')
    const second = outcome(inspect(endpoint, never))
    answer('10.0.0.1', '169.254.169.254')
    expect(await second).toBe('ADDRESS_BLOCKED')
  })

  test('with one answer of two checks the known addresses each time', async () => {
    const resolver: Resolver = {
      resolve: (_, family, signal) =>
        family === 'IPv4'
          ? Promise.resolve(['169.254.169.254'])
          : new Promise((_resolve, reject) =>
              signal.addEventListener('abort', () => reject(signal.reason as Error)),
            ),
    }
    const inspect = createInspection({ policy, resolver, lookUpMs: 5 })
    expect(await outcome(inspect(endpoint, never))).toBe('ADDRESS_BLOCKED')
    expect(await outcome(inspect(endpoint, never))).toBe('ADDRESS_BLOCKED')
  })

  test('that is cancelled rejects with the reason', async () => {
    const { resolver } = heldResolver()
    const inspect = createInspection({ policy, resolver })
    const run = new AbortController()
    const check = inspect(endpoint, run.signal)
    run.abort(new Error('stopped'))
    await expect(check).rejects.toThrow('stopped')
  })
})
