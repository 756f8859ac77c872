// The web console in a real browser: log in, see an object appear, filter, open it, watch it change, restart the server
// under the page. Run by `cargo xtask test console`, which says where the browser, its driver and the server are.
//
// Environment: LISTWATCH_BINARY, LISTWATCH_NODE_MODULES (with playwright-core), CHROMIUM, and optionally
// LISTWATCH_SCREENSHOTS, a folder to write pictures of each page to.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const { chromium } = createRequire(process.env.LISTWATCH_NODE_MODULES + '/')('playwright-core');
const TOKEN = 'console-test-token';
const folder = mkdtempSync(join(tmpdir(), 'listwatch-console-'));
writeFileSync(join(folder, 'tokens.csv'), `${TOKEN},admin,admin,"system:masters"\n`, { mode: 0o600 });

class Server {
  async start(bind) {
    const data = ['--data-dir', join(folder, 'data'), '--token-auth-file', join(folder, 'tokens.csv')];
    this.process = spawn(process.env.LISTWATCH_BINARY, ['serve', '--bind', bind, ...data], { stdio: ['ignore', 'ignore', 'pipe'] });
    for await (const line of createInterface({ input: this.process.stderr })) {
      const ready = /^ready (\S+)/.exec(line);
      if (!ready) continue;
      this.process.stderr.resume();
      this.url = ready[1];
      return;
    }
    throw new Error('the server did not become ready');
  }

  stop(signal = 'SIGTERM') {
    return new Promise((resolve) => {
      this.process.once('exit', resolve);
      this.process.kill(signal);
    });
  }
}

const server = new Server();
await server.start('127.0.0.1:0');
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: flags });
const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 760 } });
const page = await context.newPage();
page.setDefaultTimeout(15_000);
const broken = [];
page.on('pageerror', (error) => broken.push(error.message));
page.on('console', (message) => /Content Security Policy/.test(message.text()) && broken.push(message.text()));

async function send(method, path, body, type = 'application/json') {
  const headers = { Authorization: `Bearer ${TOKEN}`, 'Content-Type': type };
  const answer = await context.request.fetch(server.url + path, { method, headers, data: JSON.stringify(body) });
  assert.ok(answer.ok(), `${method} ${path}: ${answer.status()} ${await answer.text()}`);
}
const create = (name, labels = {}) => send('POST', '/api/v1/namespaces/default/configmaps', { metadata: { name, labels }, data: { colour: 'blue' } });
const picture = async (name) => {
  if (process.env.LISTWATCH_SCREENSHOTS) await page.screenshot({ path: join(process.env.LISTWATCH_SCREENSHOTS, `console-${name}.png`) });
};
// Rows of the largest table that must stay usable, the longest wait for its reaction and the time that objects change meanwhile, in
// milliseconds. A person notices a tenth of a second; half of one leaves room for a machine that runs other tests.
const ROWS = 10_000;
const REACTION = 500;
const CHURN = 3000;
const figures = [];
const within = (what, took, limit) => {
  figures.push(`${what} ${took.toFixed(0)} ms`);
  assert.ok(took < limit, `${what}: ${took.toFixed(0)} ms, more than ${limit}`);
};
// Two writers change objects of the large table one after the other, until the function that this returns is called; that one
// returns the number of writes.
const change = () => {
  let writing = true;
  const writer = async (from) => {
    let writes = 0;
    for (let i = from; writing; i = (i + 2) % ROWS, writes++) await send('PATCH', `/api/v1/namespaces/default/configmaps/many-${String(i).padStart(5, '0')}`, { data: { colour: `green-${i}-${from}` } }, 'application/merge-patch+json');
    return writes;
  };
  const writers = [writer(0), writer(1)];
  return async () => {
    writing = false;
    return (await Promise.all(writers)).reduce((a, b) => a + b);
  };
};
const goTo = (address) => page.goto(`${server.url}/console/#/${address}`);
const row = (name) => page.locator('.rows .row', { hasText: name });

const checks = {
  async 'a wrong token is refused'() {
    await page.goto(`${server.url}/console`);
    await page.fill('input[type=password]', 'wrong');
    await page.click('button[type=submit]');
    await page.waitForSelector('.error:not(:empty)');
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  },
  async 'the right one stays in the tab'() {
    await page.fill('input[type=password]', TOKEN);
    await page.click('button[type=submit]');
    await page.waitForSelector('nav .links a');
    assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
  },
  async 'an object appears within a second of its creation'() {
    await goTo('configmaps');
    await page.waitForSelector('.status.live');
    await create('first', { app: 'shop' });
    await row('first').waitFor({ timeout: 1000 });
  },
  async 'search and label selector narrow the table'() {
    await create('second', { app: 'bank' });
    await row('second').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('first');
    await row('second').waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await goTo('configmaps?labels=app%3Dbank');
    await row('second').waitFor();
    assert.equal(await row('first').count(), 0);
  },
  async 'an object shows its YAML and each change'() {
    await goTo('configmaps/default/first');
    await page.waitForSelector('.yaml:has-text("colour: blue")');
    await send('PATCH', '/api/v1/namespaces/default/configmaps/first', { data: { colour: 'green' } }, 'application/merge-patch+json');
    await page.waitForSelector('.change:has-text("green")');
    await page.waitForSelector('.yaml:has-text("colour: green")');
    await picture('object');
  },
  async 'the page goes on after a server restart'() {
    await goTo('configmaps');
    await page.waitForSelector('.status.live');
    await server.stop('SIGKILL');
    await page.waitForSelector('.status.broken');
    await server.start(new URL(server.url).host);
    await create('after-restart');
    await row('after-restart').waitFor();
  },
  async 'ten thousand rows scroll at once'() {
    for (let i = 0; i < ROWS; i += 100) await Promise.all(Array.from({ length: 100 }, (_, k) => create(`many-${String(i + k).padStart(5, '0')}`)));
    await page.waitForFunction((rows) => Number.parseInt(document.querySelector('.count').textContent, 10) >= rows, ROWS, { timeout: 60_000 });
    await picture('list');
    const took = await page.evaluate(async () => {
      const scroller = document.querySelector('.scroller');
      const began = performance.now();
      scroller.scrollTop = scroller.scrollHeight;
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return performance.now() - began;
    });
    within('scroll to the last row', took, REACTION);
    // The last rows may still be on their way: the end moves until they are there.
    await page.waitForFunction(() => {
      const scroller = document.querySelector('.scroller');
      scroller.scrollTop = scroller.scrollHeight;
      return [...document.querySelectorAll('.rows .row')].some((line) => line.textContent.includes('many-09999'));
    });
    assert.ok((await page.locator('.rows .row').count()) < 200, 'only the rows in view are drawn');
  },
  async 'ten thousand rows react to keys, search and changes'() {
    // The time until a key or a search has been drawn.
    const reaction = (key, words) => page.evaluate(async ({ key, words }) => {
      const search = document.querySelector('.bar input[type=search]');
      const began = performance.now();
      if (key) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      else (search.value = words), search.dispatchEvent(new Event('input'));
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return performance.now() - began;
    }, { key, words });
    within('move the selection', await reaction('j'), REACTION);
    await page.waitForSelector('.rows .row.selected');
    within('search', await reaction(null, 'many-0999'), REACTION);
    assert.match(await page.locator('.count').innerText(), /^10 of /);
    within('end of search', await reaction(null, ''), REACTION);
    // While objects change as fast as two writers can, the page still draws: the longest time between two frames is what a person feels.
    const written = change();
    const frames = await page.evaluate(async (time) => {
      const gaps = [];
      for (let last = performance.now(), end = last + time; last < end; ) {
        await new Promise((resolve) => requestAnimationFrame(resolve));
        gaps.push(performance.now() - last);
        last = performance.now();
      }
      return { longest: Math.max(...gaps), usual: gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 2)], count: gaps.length };
    }, CHURN);
    const writes = await written();
    figures.push(`${Math.round((writes * 1000) / CHURN)} changes/s: a frame each ${frames.usual.toFixed(0)} ms`);
    within(`longest frame of ${frames.count}`, frames.longest, REACTION);
    const began = performance.now();
    await create('last-one', { app: 'shop' });
    await page.evaluate(() => (document.querySelector('.scroller').scrollTop = 0));
    await row('last-one').waitFor({ timeout: 1000 });
    within('new object', performance.now() - began, 1000);
    console.log(`   ${ROWS} rows: ${figures.join('; ')}`);
  },
  async 'the flow shows rates, watches and collections'() {
    // A second tab watches while objects change.
    const tab = await context.newPage();
    await tab.goto(`${server.url}/console/#/configmaps`);
    await tab.fill('input[type=password]', TOKEN);
    await tab.click('button[type=submit]');
    await tab.waitForSelector('.status.live');
    const written = change();
    await goTo('flow');
    await page.waitForSelector('.stage .value');
    await page.waitForSelector('td:has-text("configmaps")');
    // A rejected write is named with its message among the recent errors, and storage figures are real ones.
    await assert.rejects(create('Not_A_Name'), /422/);
    await page.waitForSelector('td:has-text("Not_A_Name")');
    const facts = await page.locator('dl.facts').innerText();
    assert.doesNotMatch(facts, /\b0 B\b|–/, facts);
    await page.waitForSelector('h2:has-text("Watches") + div td:has-text("configmaps")');
    await page.waitForFunction(() => document.querySelector('.spark polyline').getAttribute('points').split(' ').length > 4);
    await picture('flow');
    await written();
    await tab.close();
    await page.keyboard.press('t');
    await page.keyboard.press('?');
    await page.waitForSelector('dialog');
    await picture('dark');
  },
  async 'nothing was inline, blocked or thrown'() {
    assert.deepEqual(broken, []);
  },
};

let failed = 0;
try {
  for (const [name, check] of Object.entries(checks)) {
    await check();
    console.log(`ok ${name}`);
  }
} catch (error) {
  failed = 1;
  console.log(`FAIL ${error.stack}`);
  await picture('failure');
} finally {
  await browser.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failed;
