// What is the same for all monitors of a location, made from what a source says of it.
import type { Variable } from '../../contract/monitor.ts'
import type { Dialler } from '../../network/dial.ts'
import { decoded } from '../../contract/definition-secrets.ts'
import type { Surroundings } from './run-plan.ts'
import type { Snapshot } from '../source.ts'

/** Puts the surroundings together; `dial` makes the way out, through the location's proxy if it has one. */
export function surroundingsOf(
  { location, variables, proxyUrl, accountId }: Snapshot,
  dial: (proxyUrl: string | undefined) => Dialler,
): Surroundings {
  const account = accountId === undefined ? {} : { accountId }
  return { location, ...account, variables, dial: dial(proxyUrl), secrets: proxySecrets(proxyUrl) }
}

/**
 * As `surroundingsOf`, or the same object as before when nothing of it changed, so that what was prepared stays
 * valid; `proxyBefore` is the proxy of what was before.
 */
export function nextSurroundings(
  before: Surroundings | undefined,
  proxyBefore: string | undefined,
  snapshot: Snapshot,
  dial: (proxyUrl: string | undefined) => Dialler,
): Surroundings {
  const { location, variables, proxyUrl, accountId } = snapshot
  if (before === undefined || proxyBefore !== proxyUrl) return surroundingsOf(snapshot, dial)
  const same =
    before.location === location &&
    before.accountId === accountId &&
    sameVariables(before.variables, variables)
  return same ? before : surroundingsOf(snapshot, () => before.dial)
}

/** Whether two lists of variables hold the same. */
export function sameVariables(a: readonly Variable[], b: readonly Variable[]): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b)
}

function proxySecrets(proxyUrl: string | undefined): string[] {
  const { password = '' } = URL.parse(proxyUrl ?? '') ?? {}
  return password === '' ? [] : [password, decoded(password)]
}
