// Location context: settings shared by all monitors of a location, made from a snapshot of the source.
import type { Variable } from '../../contract/monitor.ts'
import type { Dialler } from '../../network/dial.ts'
import { decoded } from '../../contract/definition-secrets.ts'
import type { LocationContext } from './run-plan.ts'
import type { Snapshot } from '../source.ts'

/** Makes the context; `dial` makes the dialler, through the location's proxy if it has one. */
export function locationContextOf(
  { location, variables, proxyUrl, accountId }: Snapshot,
  dial: (proxyUrl: string | undefined) => Dialler,
): LocationContext {
  const account = accountId === undefined ? {} : { accountId }
  return { location, ...account, variables, dial: dial(proxyUrl), secrets: proxySecrets(proxyUrl) }
}

/**
 * As `locationContextOf`, or the previous object when nothing changed, so that prepared plans stay valid.
 * `proxyBefore` is the previous proxy.
 */
export function nextLocationContext(
  before: LocationContext | undefined,
  proxyBefore: string | undefined,
  snapshot: Snapshot,
  dial: (proxyUrl: string | undefined) => Dialler,
): LocationContext {
  const { location, variables, proxyUrl, accountId } = snapshot
  if (before === undefined || proxyBefore !== proxyUrl) return locationContextOf(snapshot, dial)
  const same =
    before.location === location &&
    before.accountId === accountId &&
    sameVariables(before.variables, variables)
  return same ? before : locationContextOf(snapshot, () => before.dial)
}

/** Whether two lists of variables are equal. */
function sameVariables(a: readonly Variable[], b: readonly Variable[]): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b)
}

function proxySecrets(proxyUrl: string | undefined): string[] {
  const { password = '' } = URL.parse(proxyUrl ?? '') ?? {}
  return password === '' ? [] : [password, decoded(password)]
}
