// Aim: all problems of a monitors file are reported at once, with line, value and fix, in their exact text.
import { afterAll, describe, expect, test } from 'vitest'
import {
  apiAssertion,
  createFilesFolder,
  urlMonitor,
  urlRequest,
} from '../../support/agent/monitors-files.ts'
import { readMonitorsFile } from '../../../src/agent/monitors-file/file.ts'
import { countedProblems } from '../../../src/agent/monitors-file/problems.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'

/** The types that this code can run, as messages list them. */
const TYPES = [...MONITOR_TYPES.keys()].join(', ')

const { problems, write, remove } = createFilesFolder()
afterAll(remove)

const EVERY = '1s to 59s or one of 1m, 2m, 5m, 10m, 15m, 30m, 1h, 2h, 3h, 6h, 12h, 1d'
const HINT =
  'write a list of monitors, like\n    monitors:\n      - name: Home page\n        type: URL\n        every: 1m\n        request: { url: "https://example.com/" }'

describe('what is wrong with a file', () => {
  test.each<[string, string, string[]]>([
    ['nothing in it', '', [`  is empty; ${HINT}`]],
    ['only a comment', '# later\n', [`  is empty; ${HINT}`]],
    ['a text', 'hello', [`  holds no monitors; ${HINT}`]],
    ['no monitors', 'location: lab', [`:1:1  holds no monitors; ${HINT}`]],
    [
      'monitors that are no list',
      'monitors: 5',
      [':1:11  monitors: must be a list, each entry with a dash (got 5)'],
    ],
    [
      'an entry that is no mapping',
      '- http://a.test/',
      [
        ':1:3  monitors[0]: must be a monitor: a mapping with name, type and request (got "http://a.test/")',
      ],
    ],
    [
      'an unknown key at the top',
      `proxyURL: x\n${urlRequest('')}`,
      [':1:1  proxyURL: unknown key; did you mean proxyUrl?'],
    ],
    [
      'an unknown key',
      urlRequest('    maxResponsTime: 5'),
      [':6:5  monitors[0].maxResponsTime: unknown key; did you mean maxResponseTime?'],
    ],
    [
      'an unknown key in the request',
      urlRequest('      skipSsl: true'),
      [':6:7  monitors[0].request.skipSsl: unknown key; did you mean skipSSL?'],
    ],
    [
      'an unknown key far from all',
      urlRequest('      xyzzy: true'),
      [
        ':6:7  monitors[0].request.xyzzy: unknown key; known here: url, followRedirects, skipSSL, ipFamily, tls, allAddresses, method, assertions',
      ],
    ],
    [
      'a key of the language',
      urlRequest('    __proto__: {a: 1}').replace('url', 'url'),
      [expect.stringMatching(/^:6:5 {2}monitors\[0\]\.__proto__: unknown key/) as string],
    ],
    [
      'an unknown default',
      `defaults: {tag: [x]}\n${urlRequest('')}`,
      [':1:12  defaults.tag: unknown key; did you mean tags?'],
    ],
    [
      'a default that belongs to one',
      `defaults: {id: x}\n${urlRequest('')}`,
      [':1:12  defaults.id: belongs to one monitor only, and cannot be a default'],
    ],
    [
      'wrong types',
      urlRequest('    activated: "yes"\n    muted: 1\n    tags: x\n    degradedResponseTime: fast'),
      [
        ':6:16  monitors[0].activated: must be true or false (got "yes")',
        ':7:12  monitors[0].muted: must be true or false (got 1)',
        ':8:11  monitors[0].tags: must be a list (got "x")',
        ':9:27  monitors[0].degradedResponseTime: must be a number (got "fast")',
      ],
    ],
    [
      'a name that YAML reads as a number',
      'monitors: [{name: 5, type: URL, request: {url: "http://a.test/"}}]',
      [':1:19  monitors[0].name: must be a text; put it in quotes (got 5)'],
    ],
    [
      'a runtime that YAML reads as a number',
      'monitors: [{name: a, type: MULTI_STEP, runtimeId: 2024.09, script: "1"}]',
      [':1:51  monitors[0].runtimeId: must be a text; put it in quotes (got 2024.09)'],
    ],
    [
      'nothing but a type',
      '- type: URL',
      [':1:3  monitors[0].name: is missing', ':1:3  monitors[0].request: is missing'],
    ],
    ['no type', '- name: A', [`:1:3  monitors[0].type: is missing; one of ${TYPES}`]],
    [
      'an unknown type',
      '- {name: A, type: url}',
      [`:1:19  monitors[0].type: must be one of ${TYPES}; did you mean URL? (got "url")`],
    ],
    [
      'a type that cannot be run here',
      '- {name: A, checkType: HEARTBEAT}',
      [
        `:1:24  monitors[0].checkType: this agent cannot run HEARTBEAT monitors; it can run ${TYPES}`,
      ],
    ],
    [
      'a type twice',
      urlRequest('    checkType: URL'),
      [':3:5  monitors[0].type: means the same as checkType next to it; keep one of them'],
    ],
    ['no URL', urlMonitor('    request: {}'), [':4:14  monitors[0].request.url: is missing']],
    [
      'a bad URL',
      urlMonitor('    request: {url: "example.com"}'),
      [
        ':4:20  monitors[0].request.url: not a URL; write it whole, like https://example.com/path (got "example.com")',
      ],
    ],
    [
      'another scheme',
      urlMonitor('    request: {url: "ftp://a.test/"}'),
      [
        ':4:20  monitors[0].request.url: cannot check ftp:// addresses; use http:// or https:// (got "ftp://a.test/")',
      ],
    ],
    [
      'a frequency that is none',
      urlRequest('    frequency: 3'),
      [
        ':6:16  monitors[0].frequency: must be one of 0, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440 minutes (0 means frequencyOffset seconds) (got 3)',
      ],
    ],
    [
      'a bound that does not belong to its range',
      'monitors:\n  - name: a\n    type: ICMP\n    request: {hostname: a.test}\n    maxPacketLossThreshold: 0\n',
      [':5:29  monitors[0].maxPacketLossThreshold: must be above 0 (got 0)'],
    ],
    [
      'a huge number',
      urlRequest('    maxResponseTime: 1e400\n    degradedResponseTime: 99999999999999999999'),
      [
        ':6:22  monitors[0].maxResponseTime: must be a number (got Infinity)',
        ':7:27  monitors[0].degradedResponseTime: must be at most 45000 (got 100000000000000000000)',
      ],
    ],
    [
      'an interval that the wire form does not have',
      urlRequest('    every: 7m'),
      [`:6:12  monitors[0].every: must be ${EVERY} (got "7m")`],
    ],
    [
      'an interval without a unit',
      urlRequest('    every: 30'),
      [`:6:12  monitors[0].every: must be ${EVERY} (got 30)`],
    ],
    [
      'an interval twice',
      urlRequest('    every: 30s\n    frequency: 1'),
      [':6:5  monitors[0].every: means the same as frequency next to it; keep one of them'],
    ],
    [
      'a bad regular expression',
      apiAssertion('TEXT_BODY ( NOT_EMPTY'),
      [
        ':8:11  monitors[0].request.assertions[0]: not a regular expression: /(/: Unterminated group (got "TEXT_BODY ( NOT_EMPTY")',
      ],
    ],
    [
      'a bad JSONPath',
      apiAssertion('JSON_BODY $.[ EQUALS 1'),
      [
        expect.stringMatching(
          /^:8:11 {2}monitors\[0\]\.request\.assertions\[0\]: not a JSONPath: .*character 3.* \(got "JSON_BODY \$\.\[ EQUALS 1"\)$/,
        ) as string,
      ],
    ],
    [
      'an unknown source',
      apiAssertion('STATUS EQUALS 200'),
      [
        ':8:11  monitors[0].request.assertions[0]: its source must be one of STATUS_CODE, JSON_BODY, HEADERS, TEXT_BODY, RESPONSE_TIME (got "STATUS EQUALS 200")',
      ],
    ],
    [
      'an unknown comparison',
      apiAssertion('STATUS_CODE EQUAL 200'),
      [
        ':8:11  monitors[0].request.assertions[0]: unknown comparison EQUAL; did you mean EQUALS? (got "STATUS_CODE EQUAL 200")',
      ],
    ],
    [
      'a line without its target',
      apiAssertion('STATUS_CODE EQUALS'),
      [
        ':8:11  monitors[0].request.assertions[0]: EQUALS needs a value after it; write "" for the empty text (got "STATUS_CODE EQUALS")',
      ],
    ],
    [
      'a target too many',
      apiAssertion('TEXT_BODY NOT_EMPTY x'),
      [
        ':8:11  monitors[0].request.assertions[0]: nothing may follow NOT_EMPTY (got "TEXT_BODY NOT_EMPTY x")',
      ],
    ],
    [
      'a line that YAML reads as a mapping',
      apiAssertion('TEXT_BODY "a: b" NOT_EMPTY'),
      [
        ':8:11  monitors[0].request.assertions[0]: a line with ": " in it is a mapping in YAML; put the whole line in quotes',
      ],
    ],
    [
      'an unknown variable',
      `variables: {HOST: x}\n${urlMonitor('    request: {url: "http://{{HOTS}}/"}')}`,
      [
        ':5:20  monitors[0].request.url: the variable HOTS is not defined; did you mean HOST? (got "http://{{HOTS}}/")',
      ],
    ],
    [
      'an unknown variable, none like it',
      urlMonitor('    request: {url: "{{X}}"}'),
      [
        ':4:20  monitors[0].request.url: the variable X is not defined; define it under variables or secrets (got "{{X}}")',
      ],
    ],
    [
      'a variable with a bad name',
      `variables: {A-B: 1}\n${urlRequest('')}`,
      [
        ':1:13  variables.A-B: a name has letters, digits and _ only, and does not begin with a digit',
      ],
    ],
    [
      'a variable that is a list',
      `variables: {A: [1]}\n${urlRequest('')}`,
      [':1:16  variables.A: must be a text, a number, or true or false'],
    ],
    [
      'a variable of a list without a value, next to a valid one',
      `variables:\n  - {key: A}\n  - {key: HOST, value: a.test}\n${urlMonitor('    request: {url: "http://{{HOST}}/"}')}`,
      [':2:5  variables[0]: must be {key: NAME, value: text}, with locked and secret where wanted'],
    ],
    [
      'a secret of a list that is too long, and its uses',
      `variables:\n  - {key: TOKEN, value: ${'s'.repeat(65_537)}, secret: true}\n${urlMonitor('    request: {url: "http://a.test/{{TOKEN}}"}')}`,
      [':2:5  variables[0]: a secret has at most 65536 characters; use a shorter one'],
    ],
    [
      'a variable that is a list, and its use in proxyUrl',
      `variables: {A: [1]}\nproxyUrl: "http://{{A}}/"\n${urlRequest('')}`,
      [':1:16  variables.A: must be a text, a number, or true or false'],
    ],
    [
      'a secret without a value, and its uses',
      `secrets: [TOKEN]\n${urlMonitor('    request: {url: "http://a.test/{{TOKEN}}"}')}`,
      [':1:11  secrets[0]: TOKEN has no value; set TOKEN or TOKEN_FILE in the environment'],
    ],
    [
      'a secret without a value',
      `secrets: [TOKEN]\n${urlRequest('')}`,
      [':1:11  secrets[0]: TOKEN has no value; set TOKEN or TOKEN_FILE in the environment'],
    ],
    [
      'a bad location',
      `location: Berlin Office\n${urlRequest('')}`,
      [
        ':1:11  location: must be 1 to 63 of a-z, 0-9 and -, like berlin-office (got "Berlin Office")',
      ],
    ],
    [
      'a bad proxy',
      `proxyUrl: socks5://u:p@x\n${urlRequest('')}`,
      [':1:11  proxyUrl: cannot use a socks5:// proxy; use http:// or https://'],
    ],
    [
      'a certificate file that is missing',
      urlRequest('      tls: {caFile: none.pem}'),
      [':6:21  monitors[0].request.tls.caFile: none.pem: does not exist; check the path'],
    ],
    [
      'a certificate file that is none',
      urlRequest('      tls: {caFile: "."}'),
      [':6:21  monitors[0].request.tls.caFile: .: is a folder; name the file in it'],
    ],
    [
      'an id twice',
      '- {id: a, name: A, type: URL, request: {url: "http://a.test/"}}\n\n- {id: a, name: B, type: URL, request: {url: "http://a.test/"}}',
      [
        ':3:8  monitors[1].id: is also the id of monitors[0]; give one of them another id (got "a") (the other is on line 1)',
      ],
    ],
    [
      'two names that give one id',
      '- {name: A b, type: URL, request: {url: "http://a.test/"}}\n- {name: a-B, type: URL, request: {url: "http://a.test/"}}',
      [
        ':2:10  monitors[1].name: gives the same id as monitors[0]; give one of them another id (got "a-B") (the other is on line 1)',
      ],
    ],
  ])('%s', async (_, content, expected) => {
    expect(await problems(content)).toEqual(expected)
  })

  test.each<[string, string, string]>([
    ['a tab', 'monitors:\n\t- name: A', ':2:1  a tab in the indentation; YAML allows spaces only'],
    [
      'a bracket that is not closed',
      'monitors: [',
      ':1:12  a bracket is not closed, or what is in it is not indented',
    ],
    [
      'a key twice',
      'monitors: []\nmonitors: []',
      ':2:1  the same key twice in one mapping; remove one',
    ],
    [
      'two documents',
      'monitors: []\n---\nmonitors: []',
      ':2:1  a second document begins here (---); a monitors file holds one',
    ],
    [
      'a text that must be quoted',
      'location: @x',
      ':1:11  a text cannot begin with this character; put it in quotes',
    ],
    [
      'an unknown tag',
      'location: !x y',
      ':1:11  an unknown tag (!name); leave it out, or put the text in quotes',
    ],
    [
      'an alias to nothing',
      'location: *x',
      ':1:11  an alias (*name) without its anchor (&name) before it; put a text in quotes',
    ],
    [
      'an alias in itself',
      'monitors: &a [*a]',
      ':1:1  an alias refers to a value that contains it',
    ],
  ])('not YAML: %s', async (_, content, expected) => {
    expect((await problems(content))[0]).toBe(expected)
  })

  test('aliases of aliases that would fill the memory', async () => {
    const rows = 'bcdefghijkl'
      .split('')
      .map((name, index) => `${name}: &${name} [${`*${'abcdefghijk'[index]},`.repeat(10)}]`)
    expect(await problems(`a: &a [1]\n${rows.join('\n')}`)).toEqual([
      ':1:1  aliases make it more than 5000000 values',
    ])
  })

  test('nesting without end', async () => {
    expect((await problems('['.repeat(100_000)))[0]).toContain('nested more than 64 deep')
    expect((await problems('- '.repeat(70)))[0]).toContain('nested more than 64 deep')
  })

  test('many problems: the first 50 by line, and the count of the rest', async () => {
    const content = Array.from({ length: 70 }, (_, n) => `- ${n}`).join('\n')
    const lines = await problems(content)
    const read = await readMonitorsFile(write(content), {}, MONITOR_TYPES)
    expect(lines).toHaveLength(51)
    expect(lines[49]).toContain(':50:3  monitors[49]: must be a monitor')
    expect(lines[50]).toBe('  … and 20 more')
    expect(countedProblems(read.ok ? [] : read.problems)).toBe('70 problems')
  })

  test('problems of all kinds at once, by line', async () => {
    const lines = await problems(
      'monitors:\n  - {name: A, type: HEARTBEAT}\n  - {name: B, type: URL, every: 7m, request: {url: x}}\nlocaton: x\n',
    )
    expect(lines.map((one) => one.split('  ')[0])).toEqual([':2:21', ':3:33', ':3:52', ':4:1'])
  })
})
