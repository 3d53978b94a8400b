"""JUBE files that others wrote, as JUBE itself reads them; and files that would do harm to their reader."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from npc.errors import InvalidUsage
from npc.files import InvalidFile
from npc.jobs.jube_file import holds, step_names
from npc.jobs.suite import default_of, environment_of_settings, settings, submit_command
from npc.jobs.workpackages import NoRun, read_workpackages
from tests.paths import ROOT

#: Name, text, tags: the same three steps, or fewer, in the notations that JUBE takes.
FOREIGN: Final = {
    "quotes.xml": """<?xml version='1.0'?>
<jube><benchmark name='b' outpath='o'>
  <!-- <step name="old"><do>true</do></step> -->
  <step   work_dir="."
          name='one'><do>true</do></step>
  <step name="two" tag="long"><do>true</do></step>
  <step name="three" tag='!long'><do>true</do></step>
</benchmark></jube>
""",
    "tagged.xml": """<jube><selection><tag>long</tag></selection>
<benchmark name="b" outpath="o" tag="!none">
  <step name="one" tag="(long|short)+!none"><do>true</do></step>
  <step name="two" tag="short+long|none"><do>true</do></step>
</benchmark></jube>
""",
    "including.xml": """<jube><benchmark name="b" outpath="o">
  <include from="quotes.xml" path="benchmark/step[@name='one']"/>
  <include from="tagged.xml" path="benchmark/step[@name='two']" tag="short"/>
</benchmark></jube>
""",
    "flow.yaml": """{name: b, outpath: o, step: [{name: one, do: "true"}, {name: two, tag: long, do: "true"}]}
""",
    "indented.yml": """name: b
outpath: o
step:
    # - name: old
    - do: "true"
      name: "one"
    - {name: 'two', tag: "long|short", do: ["true", "true"]}
""",
    "one.yaml": """benchmark:
  name: b
  outpath: o
  step:
    name: one
    do: "true"
""",
    "including.yaml": """name: b
outpath: o
step: !include indented.yml:["step"]
""",
    "part.yaml": """name: b
outpath: o
step:
  - !include flow.yaml:["step"][1]
  - name: three
    do: "true"
""",
}  # fmt: skip
TAGS: Final = ([], ["long"], ["short"], ["long", "short"], ["none", "long"])
#: JUBE's own reader: the steps for each (file, tags), nothing where it refuses a file.
_JUBE: Final = """if True:
    import json, sys
    try:
        from jube2 import jubeio
    except ImportError:
        from jube import jubeio
    known = []
    for path, tags in json.loads(sys.argv[1]):
        try:
            benchmarks = jubeio.Parser(path, tags=set(tags)).benchmarks_from_xml()[0]
            known.append([step for benchmark in benchmarks.values() for step in benchmark.steps])
        except ValueError:
            known.append([])
    print(json.dumps(known))
"""


def foreign(folder: Path) -> list[Path]:
    for name, text in FOREIGN.items():
        (folder / name).write_text(text)
    return [folder / name for name in FOREIGN]


@pytest.mark.slow
def test_steps_are_those_that_jube_reads_in_the_same_file(tmp_path: Path) -> None:
    """With JUBE's own interpreter; the examples that come with JUBE, too, where they are."""
    jube = shutil.which("jube")
    assert jube
    examples = Path("/usr/share/doc/jube/examples")
    shipped = [path for path in sorted(examples.rglob("*")) if path.suffix in (".xml", ".yaml")]
    asked = list(product([*foreign(tmp_path), *shipped], TAGS))
    python = Path(jube).read_text().splitlines()[0].removeprefix("#!").split()
    words = [*python, "-c", _JUBE, json.dumps([(str(path), tags) for path, tags in asked])]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    known = json.loads(ended.stdout.splitlines()[-1])
    assert [(path.name, tags, step_names(path, tags)) for path, tags in asked] == [
        (path.name, tags, steps) for (path, tags), steps in zip(asked, known, strict=True)
    ]
    assert sum(map(len, known)) > len(FOREIGN)


@pytest.mark.parametrize(("name", "expected"), [("quotes.xml", ["one", "three"]), ("flow.yaml", ["one"])])
def test_a_file_without_a_known_ending_is_what_it_looks_like(
    tmp_path: Path, name: str, expected: list[str]
) -> None:
    (tmp_path / "benchmark").write_text(FOREIGN[name])
    assert step_names(tmp_path / "benchmark") == expected


def test_included_files_are_looked_for_where_jube_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    foreign(elsewhere)
    (tmp_path / "site.yml").write_text('name: s\nstep: !include indented.yml:["step"]\n')
    with pytest.raises(
        InvalidFile, match=r"site\.yml: includes indented\.yml, which is neither beside it nor"
    ):
        step_names(tmp_path / "site.yml")
    monkeypatch.setenv("JUBE_INCLUDE_PATH", f"/nowhere:{elsewhere}")
    assert step_names(tmp_path / "site.yml") == ["one"]


@pytest.mark.parametrize(
    ("condition", "tags", "expected"),
    [("a^b", "a", True), ("a^b", "ab", False), ("a, b, !c", "b", True), ("a,b,!c", "bc", False),
     ("!a,!b", "", True), ("!(a|b)", "c", True), ("True", "", False)],
)  # fmt: skip
def test_conditions_that_one_version_of_jube_alone_knows(condition: str, tags: str, expected: bool) -> None:
    assert holds(condition, set(tags)) is expected


@pytest.mark.parametrize("condition", ["a b", "a|", "(a", "", "a+|b", "()"])
def test_what_is_no_condition_is_an_error_with_the_file(tmp_path: Path, condition: str) -> None:
    path = tmp_path / "site.xml"
    path.write_text(f'<jube><benchmark name="b"><step name="s" tag="{condition}"/></benchmark></jube>')
    with pytest.raises(InvalidFile, match=r"site\.xml: tag '.*' is no condition of JUBE"):
        step_names(path)


# -- settings and platforms ----------------------------------------------------------------------------

SITE: Final = """name: site
outpath: runs
parameterset:
  name: site_param
  parameter:
    # "${NPC_SITE_FORMER:-1}"
    - {name: repeats, mode: shell, type: int, _: 'printf %s "${NPC_SITE_REPEATS:-5}"'}
    - {name: files, mode: shell, _: "printf %s \\"${NPC_SITE_FILES:-}\\""}
step: {name: site, use: site_param, do: "echo $repeats"}
"""


def test_settings_of_a_site_s_yaml_are_known_and_checked(tmp_path: Path) -> None:
    file, platform = tmp_path / "site.yaml", ROOT / "platforms/localhost"
    file.write_text(SITE)
    ours = settings(ROOT, platform)
    assert settings(ROOT, platform, file).keys() - ours.keys() == {"site_repeats", "site_files"}
    given = environment_of_settings(ROOT, platform, ["site_repeats=3,4"], file)
    assert given == {"NPC_SITE_REPEATS": "3,4"}
    with pytest.raises(InvalidUsage, match=r"site_repeats is a whole number \(.*site\.yaml explains it\)"):
        environment_of_settings(ROOT, platform, ["site_repeats=many"], file)


def test_a_platform_is_what_its_elements_say_not_its_comments(tmp_path: Path) -> None:
    (tmp_path / "base.xml").write_text(
        """<jube><parameterset name='executeset'>
  <!-- <parameter name="submit">bash</parameter> -->
  <parameter  mode='text' name='submit'>
     sbatch --parsable
  </parameter></parameterset></jube>"""
    )
    (tmp_path / "platform.xml").write_text(
        """<jube><!-- <parameterset init_with="other.xml"> ${NPC_QUEUE:-wrong} -->
  <parameterset name='executeset' init_with='base.xml:executeset'/>
  <parameterset name="systemParameter"><parameter mode="shell" name='queue'>
    printf %s "${NPC_QUEUE:-batch}"</parameter></parameterset></jube>"""
    )
    assert submit_command(tmp_path) == "sbatch"
    assert default_of(tmp_path, "queue") == "batch"


def test_a_parameter_that_lacks_the_platforms_prefix_is_refused(tmp_path: Path) -> None:
    base = ROOT / "platforms/slurm/platform.xml"
    for name, refused in (("reservation", True), ("npc_reservation", False), ("env", False)):
        (tmp_path / "platform.xml").write_text(
            f"""<jube><parameterset name="systemParameter" init_with="{base}">
            <parameter name="{name}">tonight</parameter></parameterset></jube>"""
        )
        if refused:
            with pytest.raises(InvalidUsage, match="its parameter reservation; call it npc_reservation"):
                environment_of_settings(ROOT, tmp_path, ["queue=short"])
        else:
            assert environment_of_settings(ROOT, tmp_path, ["queue=short"]) == {"NPC_QUEUE": "short"}


# -- files that would do harm --------------------------------------------------------------------------

#: Each name stands for ten of the one before.
_TENFOLD: Final = tuple(zip("abcdefgh", "bcdefghi", strict=True))
_ENTITIES: Final = "".join(f"<!ENTITY {name} '{f'&{of};' * 10}'>" for of, name in _TENFOLD)
_BOMB: Final = f"<!DOCTYPE jube [<!ENTITY a 'xxxxxxxxxx'>{_ENTITIES}]>"
_HARM: Final = '__import__("os").mkdir("harm")'
_TWICE: Final = '<include from="broad.xml" path="include"/>' * 2
HARMFUL: Final = {
    "entities.xml": (f"{_BOMB}<jube><step name='&i;'/></jube>", "declares an XML entity"),
    "file.xml": (
        "<!DOCTYPE jube [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><jube>&a;</jube>", "declares an XML entity",
    ),
    "endless.xml": ('<jube><include from="endless.xml" path="."/></jube>', "includes more than|too deep"),
    "broad.xml": (f"<jube>{_TWICE}</jube>", "includes more than"),
    "deep.xml": ("<jube>" + "<a>" * 20_000 + "</a>" * 20_000 + "</jube>", "nested too deep"),
    "path.xml": ('<jube><include from="path.xml" path="///["/></jube>', "<include path='///"),
    "python.yml": ("step: !!python/object/apply:os.mkdir [harm]", "could not determine a constructor"),
    "expression.yml": (f'step: !include expression.yml:["a"]:{_HARM}', "NPC reads FILE"),
    "key.yml": (f"a: 1\nstep: !include quotes.yml:[{_HARM}]", "there is no such part"),
    "endless.yml": ("step: !include endless.yml", "includes more than|nested too deep"),
    "deep.yml": ("[" * 1500, "nested too deep"),
    "aliases.yml": (
        "parameterset: &p {parameter: [" + "{name: x}, " * 1000 + "]}\n"
        "benchmark: [" + "{parameterset: *p}, " * 200 + "]\n",
        "more than 100000 elements",
    ),
    "encoding.xml": ("<?xml version='1.0' encoding='x-none'?><jube/>", "unknown encoding"),
    "half.yml": ("step: [", "expected the node content|did not find expected node"),
    "half.xml": ("<jube><step", "unclosed token"),
}  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_file_is_refused_in_one_line_and_nothing_of_it_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text, reason = HARMFUL[name]
    (tmp_path / "quotes.yml").write_text(FOREIGN["flow.yaml"])
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidFile, match=rf"{name}: .*(?:{reason})") as raised:
        step_names(tmp_path / name)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "harm").exists()


def test_aliases_that_stand_for_gigabytes_take_no_memory(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{of}'] * 10)}]" for of, name in _TENFOLD]
    (tmp_path / "aliases.yml").write_text("\n".join([*lines, "step: {name: s, x: *i, do: *i}\n"]))
    assert step_names(tmp_path / "aliases.yml") == ["s"]


def test_a_run_whose_files_declare_entities_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "workpackages.xml").write_text(f"{_BOMB}<workpackages>&i;</workpackages>")
    with pytest.raises(NoRun, match="declares an XML entity"):
        read_workpackages(tmp_path)
