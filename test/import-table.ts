// Which part of src may import which. Held by architecture.test.ts.

/** What every type of monitor stands on. */
const MONITOR =
  'contract network monitors/monitor.ts monitors/probe.ts monitors/metrics.ts monitors/assertions'

/** What every resource of the platform stands on. */
const PLATFORM = 'contract process database monitors/definitions.ts platform/http'
const RESOURCE = `${PLATFORM} platform/secrets platform/jobs platform/*/queries platform/*/queries.ts`

/**
 * Files or folders of src, from the general to the special, and what those in them may import besides what lies in the
 * same place. The last entry that holds a file counts. `*` stands for one folder.
 */
export const MAY_IMPORT: Readonly<Record<string, string>> = {
  'main.ts': 'cli contract process platform',
  contract: '',
  process: '',
  examples: '',
  network: 'contract',
  database: 'contract process',
  sandbox: 'contract process network',
  scripts: 'contract process network sandbox',
  suites: 'contract process network sandbox scripts',

  monitors: 'contract network',
  'monitors/*': MONITOR,
  'monitors/url': `${MONITOR} monitors/http`,
  'monitors/api': `${MONITOR} monitors/http scripts`,
  'monitors/browser': `${MONITOR} scripts`,
  'monitors/multistep': `${MONITOR} scripts`,
  'monitors/suite': `${MONITOR} scripts suites`,
  'monitors/*/definition.ts': 'contract',
  'monitors/definitions.ts': 'contract monitors/*/definition.ts',

  agent: 'contract process network monitors sandbox scripts suites',
  client:
    'contract process scripts suites monitors/definitions.ts agent/monitors-file agent/platform agent/config.ts agent/redaction/scrub.ts agent/run/result-text.ts',
  cli: 'contract process network monitors sandbox scripts suites agent client database platform examples',

  platform: `${RESOURCE} platform/*`,
  'platform/*': RESOURCE,
  'platform/http': PLATFORM,
  'platform/secrets': PLATFORM,
  'platform/agents': `${RESOURCE} platform/runs platform/variables`,
  'platform/alerts': `${RESOURCE} platform/checks platform/incidents platform/results`,
  'platform/apply': `${RESOURCE} platform/checks platform/groups platform/variables`,
  'platform/checks': `${RESOURCE} platform/results`,
  'platform/code-bundles': `${RESOURCE} platform/artifacts`,
  'platform/groups': `${RESOURCE} platform/checks`,
  'platform/heartbeats': `${RESOURCE} platform/checks platform/results`,
  'platform/private-locations': `${RESOURCE} platform/checks`,
  'platform/results': `${RESOURCE} platform/agents platform/artifacts`,
  'platform/runs': `${RESOURCE} platform/agents platform/artifacts platform/checks platform/results`,
  'platform/variables': `${RESOURCE} platform/checks`,
}
