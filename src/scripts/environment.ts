// The environment of scripts in the public contract: the variables of account, group and monitor, and facts
// about their own check.
import type { ScriptContext } from './context.ts'

/** What of a monitor the environment names. */
export interface NamedMonitor {
  id: string
  name: string
  checkType: string
}

type EnvironmentContext = Pick<ScriptContext, 'variables' | 'location' | 'accountId' | 'source'>

/** Names that decide on how the script is sandboxed; they are reserved. */
const OURS = /^(?:VEDETTE_|PLAYWRIGHT_BROWSERS_PATH$|PW_TEST_REPORTER$|NODE_OPTIONS$|LD_PRELOAD$)/

/** The variables of a script or a suite. Those of the monitor win over those of the contract. */
export function scriptEnvironment(
  { id, name, checkType }: NamedMonitor,
  { variables = {}, location = '', accountId, source = 'SCHEDULER' }: EnvironmentContext,
): Record<string, string> {
  const own = Object.entries(variables).filter(([key]) => !OURS.test(key))
  return {
    CHECKLY: '1',
    CHECKLY_RUN_SOURCE: source,
    ...(accountId === undefined ? {} : { ACCOUNT_ID: accountId }),
    // Outside of a pipeline, a suite must not assume that it runs in CI.
    ...(source === 'TEST_NO_RECORD' ? { CI: '1' } : {}),
    CHECKLY_CHECK_ID: id,
    CHECKLY_REGION: location,
    CHECK_ID: id,
    CHECK_NAME: name,
    CHECK_TYPE: checkType,
    REGION: location,
    ...Object.fromEntries(own),
  }
}
