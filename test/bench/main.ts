// `npm run bench [name…]`: figures side by side in one run. Ratios count; absolute figures depend on
// the machine and on who else is using it.
import { benchUptimeWithSuites } from './suites/beside-suites.ts'
import { benchBrowser } from './suites/browser.ts'
import { benchChecks } from './monitors/checks.ts'
import { benchCodeSoak } from './suites/code-soak.ts'
import { benchDns } from './monitors/dns.ts'
import { benchFleet } from './platform/fleet.ts'
import { benchHeartbeats } from './platform/heartbeats.ts'
import { benchIcmp } from './monitors/icmp.ts'
import { benchImages } from './container/images.ts'
import { benchIncidents } from './platform/incidents.ts'
import { benchIngest } from './platform/ingest.ts'
import { benchIcmpScale, benchScale } from './monitors/scale.ts'
import { benchPhases } from './phases.ts'
import { benchScrub } from './scrub.ts'
import { benchSsl } from './monitors/ssl.ts'
import { benchStart } from './start.ts'
import { benchSuites } from './suites/suites.ts'

const BENCHES: Record<string, [run: () => Promise<void>, what: string]> = {
  'beside-suites': [
    benchUptimeWithSuites,
    '600 URL monitors every 10 s on an agent that runs two suites all the time',
  ],
  browser: [
    benchBrowser,
    'browser and multistep monitors against their bare scripts, in turn, and their memory',
  ],
  checks: [benchChecks, 'checks per CPU-second against a bare loop and blackbox_exporter'],
  'code-soak': [benchCodeSoak, 'leftovers of 500 suites, browser and multistep monitors'],
  dns: [benchDns, 'DNS checks per CPU-second against blackbox_exporter, and a long run'],
  fleet: [
    benchFleet,
    '10,000 URL monitors every 10 s over two agents, platform and PostgreSQL for 120 s',
  ],
  heartbeats: [
    benchHeartbeats,
    'pings of 10,000 heartbeats per CPU-second of the platform, each stored before its answer',
  ],
  icmp: [
    benchIcmp,
    'echoes per CPU-second against blackbox_exporter, times against ping, and a long run',
  ],
  'icmp-scale': [benchIcmpScale, '5,000 ICMP monitors every 10 s on one agent for 60 s'],
  images: [
    benchImages,
    'the images of the agent: from docker run to ready, idle, and CPU and memory by kind of work',
  ],
  incidents: [
    benchIncidents,
    'pages of incidents against bare routes, on the embedded and on Debian’s PostgreSQL',
  ],
  ingest: [benchIngest, 'results recorded per CPU-second of the platform and of its database'],
  phases: [benchPhases, 'phases against those of curl -w, median of 50'],
  scale: [benchScale, '10,000 URL monitors every 10 s on one agent'],
  scrub: [
    benchScrub,
    'scrubbing with many and long secrets: set-up, bytes per second, delay of the event loop',
  ],
  ssl: [
    benchSsl,
    'SSL checks per CPU-second against a bare handshake and blackbox_exporter, and 100,000 in a row',
  ],
  start: [benchStart, 'time from start to ready, and idle memory'],
  suites: [benchSuites, 'a suite of ten tests on each engine, against bare Playwright in turn'],
}

const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !(name in BENCHES))
if (unknown.length > 0) {
  process.stderr.write(
    `no bench ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}\n`,
  )
  process.exit(2)
}
for (const [name, [run, what]] of Object.entries(BENCHES)) {
  if (asked.length > 0 && !asked.includes(name)) continue
  process.stdout.write(`\n## ${name}: ${what}\n\n`)
  await run()
}
